"""``/traces``: who asks decides whose Datasette answers.

Datasette is served at its root, with its own addresses: a path prefix (``base_url``) is fragile in
0.65. Only what starts with ``/traces`` reaches it, and its static files, which are the same for
everybody; so its pages about the server (``/-/settings``, ``/-/threads``, …) have no address here.
It gets neither cookies nor credentials: it has no use for them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from dashboard import pages
from dashboard.addresses import raw_path
from dashboard.call.pages import CallPages, find_address
from dashboard.tables import relay
from dashboard.tables.instances import MAX_OPEN, Instances
from dashboard.tables.mistakes import Asked
from dashboard.tables.patched_datasette import STATIC
from dashboard.turns import BusyError
from dashboard.visitors import Visitors
from store.people import Caller
from store.settings import Settings
from store.sign_in import Visitor

_OURS = re.compile(r"/traces(?:[/.].*)?", re.DOTALL)
_DROPPED_REQUEST_HEADERS = {b"authorization", b"cookie"}


class Traces:
    """An ASGI application; ``running`` must be entered before it is asked."""

    def __init__(self, settings: Settings, visitors: Visitors, *, max_open: int = MAX_OPEN) -> None:
        self._scheme = urlsplit(settings.base_url).scheme
        self._visitors = visitors
        self._calls = CallPages(settings)
        self.instances = Instances(settings.data_dir, max_open)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/traces{rest:path}", self),
            Mount("/-/static", StaticFiles(directory=STATIC)),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._calls.running():
            try:
                yield
            finally:
                self.instances.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = raw_path(scope)
        if not _OURS.fullmatch(path) or not path.isascii() or path.endswith(".db"):
            raise HTTPException(404)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, "Traces can only be read.", {"allow": "GET, HEAD"})
        caller = await self._visitors.require_caller(request)
        page = await self._show_call(request, caller)
        if page is None:
            await self._browse(request, caller, receive, send)
        else:
            await page(scope, receive, send)

    async def _show_call(self, request: Request, caller: Caller) -> Response | None:
        """None for what Datasette answers; programs ask it for the call itself."""
        address = find_address(raw_path(request.scope))
        by_program = pages.is_for_program(request)
        if address is None or (address.side is None and by_program):
            return None
        return await self._calls.answer(address, caller, by_program=by_program)

    async def _browse(self, request: Request, caller: Caller, receive: Receive, send: Send) -> None:
        try:
            with self.instances.use(caller.organization_id) as app:
                if app is not None:
                    await relay.ask(app, self._scope(request, caller), receive, send)
                    return
                answer = _say_nothing_recorded(request, caller)
        except BusyError as error:
            raise HTTPException(
                503, "Earlier queries are still running.", {"retry-after": "3"}
            ) from error
        await answer(request.scope, receive, send)

    def _scope(self, request: Request, caller: Caller) -> Scope:
        headers = request.scope["headers"]
        return {
            **request.scope,
            "headers": [item for item in headers if item[0] not in _DROPPED_REQUEST_HEADERS],
            "scheme": self._scheme,
            "actor": _describe(caller),
            "taximeter": Asked(is_for_program=pages.is_for_program(request)),
        }


def _describe(caller: Caller) -> dict[str, str]:
    """What the top of a page tells of who is signed in."""
    if isinstance(caller, Visitor):
        name, organization = caller.email or "local user", caller.organization_name
    else:
        name, organization = "service API key", ""
    return {"id": caller.user_id, "display": name, "organization": organization}


def _say_nothing_recorded(request: Request, caller: Caller) -> Response:
    if pages.is_for_program(request):
        return pages.problem_json(404, "nothing_recorded", "Nothing has been recorded yet.")
    status = 200 if raw_path(request.scope) in ("/traces", "/traces/usage") else 404
    return pages.show("nothing_recorded.html", visitor=caller, status=status)
