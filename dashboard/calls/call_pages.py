"""``/calls/<id>`` and its tabs: the half in the web process, which forwards to query processes."""

import re
import sqlite3
from dataclasses import asdict

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard.addresses import CALL_ID, ENTRY_ID
from dashboard.call.lookup import find_id
from dashboard.call_route import CallRoute
from dashboard.nothing_recorded import NothingRecorded
from dashboard.site import Site
from dashboard.trace_work import TracePages
from metering.credential_names import name_credential
from runtime import extensions
from store.control.people import Caller
from store.traces.calls.call_reader import CallReader

TABS = ("cost", "raw", "details")
_FIRST_TAB = "conversation"
_NAME = re.compile(rf"{CALL_ID}|{ENTRY_ID}")
_MAX_LANGUAGE = 20


class CallTabPages(TracePages):
    """The pages of one call of the caller's organisation. An address has its row id or its entry id."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._nothing_recorded = NothingRecorded(site)

    def routes(self) -> list[BaseRoute]:
        return [
            CallRoute("/calls/{name}", self.call_page),
            CallRoute("/calls/{name}/{tab}", self.call_page),
        ]

    async def call_page(self, request: Request) -> Response:
        name, tab = request.path_params["name"], request.path_params.get("tab", _FIRST_TAB)
        if not _NAME.fullmatch(name) or tab not in (_FIRST_TAB, *TABS):
            raise HTTPException(404)
        caller = await self._visitors.require_caller(request)
        if self._nothing_recorded.applies_to(caller):
            return await self._nothing_recorded.render(request, caller, "Calls", "calls", 404)
        usage_id, credential = await self._work.run(caller, lambda db: _find(db, name))
        names = await self._visitors.read_credential_names(caller)
        notices = await run_in_threadpool(self._list_notices, caller, usage_id)
        known = {
            "call": usage_id,
            "tab": tab,
            "language": request.query_params.get("language", "")[:_MAX_LANGUAGE],
            "notices": notices,
            "credential": name_credential(credential, names),
        }
        return self._site.forwarding.respond(request, caller, "call", known)

    def _list_notices(self, caller: Caller, usage_id: int) -> list[dict[str, str]]:
        found = extensions.call().call_notices(
            data_dir=self._site.settings.data_dir, caller=caller, usage_ids=(usage_id,)
        )
        return [asdict(notices[usage_id]) for notices in found if usage_id in notices]


def _find(db: sqlite3.Connection | None, name: str) -> tuple[int, str | None]:
    """Return the row id of a call, which may not exist, and its credential, by its row id or entry id.

    Raises HTTPException, sqlite3.Error."""
    if db is None:
        return int(name) if name.isdigit() else 0, None
    reader = CallReader(db)
    usage_id = find_id(reader, name)
    return usage_id, reader.find_credential(usage_id)
