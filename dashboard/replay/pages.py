"""``/traces/usage/<id>/replay``: a page that changes a call's request and sends it again.

| address below | |
| --- | --- |
| `/ticket?endpoint=…` | the address to send it to, with a ticket for the proxy |
| `/entry?run=…` | the entry of what was sent, after it is recorded |
| `/check` | accepts a request, and returns its mistakes and its changes |

The page's script sends the request to the proxy endpoint itself, with the credential that was pasted
into the page. So no credential reaches this process, which only issues tickets: to members of the
organisation, for its own endpoints (``runtime/replay_tickets.py``).
"""

import re
import time
from dataclasses import dataclass
from typing import Literal, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dashboard.addresses import CALL_ID, raw_path
from dashboard.formats import outcome_mark
from dashboard.forms import FOREIGN, is_same_origin, read_body
from dashboard.rendering import PRIVATE
from dashboard.replay.editing import MAX_EDITED_BYTES
from dashboard.replay.snippets import USUAL_PATH
from dashboard.site import Site
from dashboard.trace_work import TraceWork
from metering.formats import (
    format_cache_share,
    format_cents,
    format_duration,
    format_short_tokens,
)
from runtime import replay_tickets, runs
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.management import Management
from store.control.sessions import Visitor
from store.pagination import MAX_LIMIT
from store.traces.calls.call_reader import CallReader

_PREFIX = "replay-"
_ADDRESS = re.compile(rf"/traces/usage/({CALL_ID})/replay(?:/(ticket|entry|check))?")

type Part = Literal["ticket", "entry", "check"]


@dataclass(frozen=True, slots=True)
class ReplayAddress:
    """The address of a part of the page of a call; ``part`` is None for the page itself."""

    usage_id: int
    part: Part | None

    @property
    def method(self) -> str:
        return "POST" if self.part == "check" else "GET"

    @property
    def reads_calls(self) -> bool:
        """Return whether the part reads recorded calls. The ticket does not: it is for the proxies of this
        machine."""
        return self.part != "ticket"


def find_address(path: str) -> ReplayAddress | None:
    """Parse the path of a page that sends a call again; None for any other path."""
    found = _ADDRESS.fullmatch(path)
    return None if found is None else ReplayAddress(int(found[1]), cast(Part | None, found[2]))


class ReplayPages:
    """The page that sends a call again. ``secret`` signs tickets and is known to the proxy too."""

    def __init__(self, site: Site, secret: str) -> None:
        self._settings = site.settings
        self._visitors = site.visitors
        self._secret = secret
        self._forwarding = site.forwarding
        self._work = TraceWork(site)

    async def respond(self, request: Request) -> Response | None:
        """Return the response, or None if the address is of another page.

        Raises HTTPException, NotSignedInError, NotFoundError, sqlite3.Error."""
        address = find_address(raw_path(request.scope))
        if address is None:
            return None
        if request.method != address.method and (request.method, address.method) != ("HEAD", "GET"):
            raise HTTPException(405, "This address has another method.", {"allow": address.method})
        match address.part:
            case "ticket":
                return await self._make_ticket(request)
            case "entry":
                return await self._find_entry(request)
            case "check":
                return await self._check(request, address.usage_id)
        return await self._render(request, address.usage_id)

    async def _render(self, request: Request, usage_id: int) -> Response:
        visitor, endpoints = await self._visitors.require_with(request, self._list_endpoints)
        known = {
            "usage_id": usage_id,
            "endpoints": [
                {"slug": each.slug, "name": each.name, "upstream": each.upstream}
                for each in endpoints
            ],
        }
        return self._forwarding.respond(request, visitor, "replay", known)

    def _list_endpoints(self, control: ControlDatabase, visitor: Visitor) -> list[ProxyEndpoint]:
        management = Management.make(control, self._settings)
        return list(management.list_endpoints(visitor, limit=MAX_LIMIT).items)

    async def _make_ticket(self, request: Request) -> Response:
        slug = request.query_params.get("endpoint", "")
        _, endpoint = await self._visitors.require_with(
            request,
            lambda control, visitor: Management.make(control, self._settings).get_endpoint(
                visitor, slug
            ),
        )
        run_id = f"{_PREFIX}{runs.new_run_id()}"
        is_beta = request.query_params.get("beta") == "true"
        path = runs.append_run(f"/proxy/{endpoint.slug}", run_id)
        return JSONResponse(
            {
                "address": path + USUAL_PATH + ("?beta=true" if is_beta else ""),
                "run": run_id,
                "header": replay_tickets.HEADER,
                "ticket": replay_tickets.make_ticket(
                    self._secret, endpoint.slug, run_id, time.time()
                ),
            },
            headers=PRIVATE,
        )

    async def _find_entry(self, request: Request) -> Response:
        visitor = await self._visitors.require(request)
        run_id = request.query_params.get("run", "")
        if not run_id.startswith(_PREFIX) or not runs.is_run_id(run_id):
            raise HTTPException(400, "There is no such run.")

        def read(reader: CallReader) -> Response:
            usage_id = reader.find_id_of_run(run_id)
            call = None if usage_id is None else reader.find_call(usage_id)
            if call is None:
                return JSONResponse({"id": None}, headers=PRIVATE)
            entry, tokens = call.entry, call.entry.tokens
            mark = outcome_mark(entry.outcome, entry.status_code, entry.stop_reason)
            return JSONResponse(
                {
                    "id": call.id,
                    "cost": format_cents(entry.cost_cents),
                    "duration": format_duration(entry.duration_ms),
                    "prompt": format_short_tokens(tokens.prompt),
                    "cache_share": format_cache_share(tokens),
                    "output": format_short_tokens(tokens.output_tokens),
                    "outcome": mark.label,
                },
                headers=PRIVATE,
            )

        return await self._work.run_on_calls(visitor, read)

    async def _check(self, request: Request, usage_id: int) -> Response:
        """Check a request, nothing of which is stored."""
        visitor = await self._visitors.require(request)
        if not is_same_origin(request.headers, self._settings.base_url):
            raise HTTPException(403, FOREIGN)
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "The request must be sent as application/json.")
        body = await read_body(
            request,
            MAX_EDITED_BYTES,
            too_large="This request is too large to be checked here.",
            cut="This request did not come to its end.",
        )
        arguments = {"usage_id": usage_id}
        return self._forwarding.respond(request, visitor, "replay_check", arguments, body)
