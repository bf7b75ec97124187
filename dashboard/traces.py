"""``/traces``: downloads of bodies are sent from here, all other pages are made by a query process.

Each organisation has its own Datasette in that process, with its own database alone. Datasette is served
at its root, with its own addresses: a path prefix (``base_url``) is fragile in 0.65. Only requests below
``/traces`` reach it, and those for its static files, which are the same for everybody; so its pages
about the server (``/-/settings``, ``/-/threads``, …) have no address here. It gets neither cookies nor
credentials, which it does not need.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from dashboard import rendering
from dashboard.addresses import call_address, entry_address, raw_path
from dashboard.call.addresses import Address, find_address
from dashboard.call.downloads import Downloads
from dashboard.call_route import CallRoute
from dashboard.compare.pages import ComparePages
from dashboard.export import conversion
from dashboard.nothing_recorded import NothingRecorded
from dashboard.rendering import PRIVATE
from dashboard.replay.pages import ReplayPages, find_address as find_replay
from dashboard.site import Site
from runtime.settings import CLIENT_MARK_VARIABLE
from store.control.people import Caller

_OURS = re.compile(r"/traces(?:[/.].*)?", re.DOTALL)


class _TracesRoute(CallRoute):
    """The route of all addresses below ``/traces``, including those that send a call again."""

    def reads_calls(self, method: str, path: str) -> bool:
        is_read = super().reads_calls(method, path)
        replay = find_replay(path)
        if replay is None:
            return is_read
        return replay.reads_calls and (is_read or method == replay.method)


class Traces:
    """The ASGI application of ``/traces``. Enter ``running`` before the first request."""

    def __init__(self, site: Site) -> None:
        self._visitors = site.visitors
        self._nothing_recorded = NothingRecorded(site)
        self._downloads = Downloads(site.settings)
        self._forwarding = site.forwarding
        self._comparisons = ComparePages(site)
        self._replays = ReplayPages(site, os.environ.get(CLIENT_MARK_VARIABLE, ""))

    def routes(self) -> list[BaseRoute]:
        return [
            _TracesRoute("/traces{rest:path}", self),
            Mount("/-/static", StaticFiles(directory=_find_static())),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._downloads.running():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = raw_path(scope)
        if not _OURS.fullmatch(path) or not path.isascii() or path.endswith(".db"):
            raise HTTPException(404)
        page = await self._replays.respond(request)
        if page is not None:
            await page(scope, receive, send)
            return
        if path.endswith(conversion.SUFFIX) and not conversion.can_convert():
            raise HTTPException(404, conversion.NOT_INSTALLED)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, "Traces can only be read.", {"allow": "GET, HEAD"})
        caller = await self._visitors.require_caller(request)
        page = await self._comparisons.respond(request, caller)
        if page is None:
            page = await self._find_page(request, caller)
        if page is None:
            await self._browse(request, caller, receive, send)
        else:
            await page(scope, receive, send)

    async def _find_page(self, request: Request, caller: Caller) -> Response | None:
        """Return the page of a call or the download of a body, or None if Datasette has to respond.

        Programs get the row of a call from Datasette."""
        path = raw_path(request.scope)
        address = find_address(path)
        by_program = rendering.is_for_program(request)
        if address is None:
            return None
        if address.side is None:
            return None if by_program else _lead_to_call(address)
        if address.view is None:
            return await self._downloads.respond(
                address.usage_id, address.side, caller, by_program=by_program
            )
        if self._nothing_recorded.applies_to(caller):
            return None
        return self._forwarding.respond(request, caller, "call", {"path": path})

    async def _browse(self, request: Request, caller: Caller, receive: Receive, send: Send) -> None:
        if self._nothing_recorded.applies_to(caller):
            response = await self._report_nothing(request, caller)
            await response(request.scope, receive, send)
            return
        page = self._forwarding.describe(request, caller, "tables", {})
        forward = partial(self._forwarding.forward, request, page, b"", receive)
        if not request.scope["path"].endswith(conversion.SUFFIX):
            await forward(send)
            return
        is_head = request.method == "HEAD"
        async with conversion.to_parquet(send, is_head=is_head) as send_parquet:
            await forward(send_parquet)

    async def _report_nothing(self, request: Request, caller: Caller) -> Response:
        if rendering.is_for_program(request):
            return rendering.problem_json(404, "nothing_recorded", "Nothing has been recorded yet.")
        status = 200 if raw_path(request.scope) in ("/traces", "/traces/usage") else 404
        return await self._nothing_recorded.render(request, caller, "Traces", "traces", status)


def _lead_to_call(address: Address) -> Response:
    """Return a redirect to the page of a call. Browsers keep the fragment of the address."""
    entry_id = address.entry_id
    page = call_address(address.usage_id) if entry_id is None else entry_address(entry_id)
    return RedirectResponse(page, 302, PRIVATE)


def _find_static() -> Path:
    """Return the folder of Datasette's static files, without importing Datasette into this process."""
    spec = find_spec("datasette")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("Datasette is not installed: run ./run.sh, which installs it.")
    return Path(spec.submodule_search_locations[0]) / "static"
