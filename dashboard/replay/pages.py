"""``/traces/usage/<id>/replay``: a page that changes a call's request and sends it again.

| address below | |
| --- | --- |
| `/ticket?endpoint=…` | where to send it, with a ticket for the proxy |
| `/entry?run=…` | the entry of what was sent, once it is recorded |
| `/check` | takes a request, and returns what is wrong with it and what was changed |

The page's script sends the request to the proxy endpoint itself, with the credential that was pasted into
the page. So no credential comes to this process, which only gives out tickets: to members of the
organisation, for its own endpoints (``runtime/replay_tickets.py``).
"""

import re
import time
from dataclasses import dataclass
from typing import Literal, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dashboard import form_origin, rendering
from dashboard.addresses import CALL_ID, raw_path
from dashboard.call.addresses import body_address
from dashboard.call.bodies import read_text
from dashboard.call.curl import USUAL_PATH, USUAL_VERSION
from dashboard.call.facts import make_headline
from dashboard.call.response import parse_response
from dashboard.kept_connections import KeptConnections
from dashboard.rendering import PRIVATE
from dashboard.replay.checks import check_request
from dashboard.replay.layout import lay_out
from dashboard.request_bodies import read_body
from dashboard.trace_work import TraceWork, get_call
from dashboard.visitors import Visitors
from metering.formats import format_bytes
from metering.json_reading import parse_object
from runtime import replay_tickets, runs
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.management import Management
from store.control.sessions import Visitor
from store.pagination import MAX_LIMIT
from store.traces.bodies import MissingPieceError
from store.traces.call_reader import Call, CallReader

MAX_EDITED_BYTES = 900_000  # the front door lets through 1 MB to this process
MAX_RESPONSE_BYTES = 4 << 20
MAX_RESPONSE_CHARS = 100_000
_PREFIX = "replay-"
_ADDRESS = re.compile(rf"/traces/usage/({CALL_ID})/replay(?:/(ticket|entry|check))?")
_EMPTY = b'{"model": "", "max_tokens": 1024, "messages": [{"role": "user", "content": ""}]}'

type Part = Literal["ticket", "entry", "check"]


@dataclass(frozen=True, slots=True)
class ReplayAddress:
    """A call, and the part of its page; the page itself without one."""

    usage_id: int
    part: Part | None

    @property
    def method(self) -> str:
        return "POST" if self.part == "check" else "GET"


def find_address(path: str) -> ReplayAddress | None:
    """Return what an address names, or None for one that is not of this page."""
    found = _ADDRESS.fullmatch(path)
    return None if found is None else ReplayAddress(int(found[1]), cast(Part | None, found[2]))


class ReplayPages:
    """The page that sends a call again. ``secret`` is known to the proxy too."""

    def __init__(
        self, settings: Settings, visitors: Visitors, connections: KeptConnections, secret: str
    ) -> None:
        self._settings = settings
        self._visitors = visitors
        self._secret = secret
        self._work = TraceWork(settings, connections)

    async def respond(self, request: Request) -> Response | None:
        """Return the response, or None for an address of another page.

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

        def render(reader: CallReader) -> Response:
            call = get_call(reader, usage_id)
            body = _read_request(call, reader)
            headline = make_headline(call.entry)
            return rendering.render(
                "replay.html",
                visitor=visitor,
                headers=PRIVATE,
                call=call,
                headline=headline,
                endpoints=endpoints,
                vendor=self._settings.vendor,
                version=call.entry.api_version or USUAL_VERSION,
                request_text=None if body is None else _lay_out(body),
                request_size=format_bytes(call.request.length if call.request else None),
                is_recorded=call.request is not None,
                fields=parse_object(body or b"") or {},
                response=_read_response(call, reader),
            )

        return await self._work.run_on_calls(visitor, render)

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
            headline = make_headline(call.entry)
            return JSONResponse(
                {
                    "id": call.id,
                    "cost": headline.cost,
                    "duration": headline.duration,
                    "prompt": headline.prompt,
                    "cache_share": headline.cache_share,
                    "output": headline.output,
                    "outcome": headline.mark.label,
                },
                headers=PRIVATE,
            )

        return await self._work.run_on_calls(visitor, read)

    async def _check(self, request: Request, usage_id: int) -> Response:
        """Check a request, of which nothing is kept."""
        visitor = await self._visitors.require(request)
        if not form_origin.is_same_origin(request.headers, self._settings.base_url):
            raise HTTPException(403, form_origin.REFUSAL)
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "The request must be sent as application/json.")
        body = await read_body(
            request,
            MAX_EDITED_BYTES,
            too_large="This request is too large to be checked here.",
            cut="This request did not come to its end.",
        )

        def check(reader: CallReader) -> Response:
            recorded = _read_request(get_call(reader, usage_id), reader)
            found = check_request(body, recorded)
            return JSONResponse(
                {"problems": found.problems, "changes": found.changes}, headers=PRIVATE
            )

        return await self._work.run_on_calls(visitor, check)


def _read_request(call: Call, reader: CallReader) -> bytes | None:
    """Return the request to be edited, or None for one that is too large or not text. One that was not
    kept is an empty one."""
    if call.request is None:
        return _EMPTY
    if not call.request.is_text or call.request.length > MAX_EDITED_BYTES:
        return None
    try:
        return reader.read_body(call.id, "request", call.request.length)
    except MissingPieceError:  # retention took it meanwhile
        return _EMPTY


def _read_response(call: Call, reader: CallReader) -> object:
    body = read_text(call, "response", reader, MAX_RESPONSE_BYTES)
    if body is None:
        return None
    return parse_response(body, MAX_RESPONSE_CHARS, address=body_address(call.id, "response"))


def _lay_out(body: bytes) -> str:
    """Return a request with a line for each value, as it is where it is not JSON."""
    text = body.decode("utf-8", "replace")
    return text if parse_object(body) is None else lay_out(text)
