"""``/traces/usage/<id>`` and below: the page of one call, its bodies and their files.

Reading, parsing and rendering are done in threads, one request of an organisation at a time, so that
neither the event loop nor other organisations wait. Files are read in chunks while they are sent.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from starlette.responses import RedirectResponse, Response

from dashboard import rendering
from dashboard.addresses import call_address, session_address
from dashboard.cache_breaks import open_break
from dashboard.call import facts
from dashboard.call.addresses import Address
from dashboard.call.bill import make_bill
from dashboard.call.bodies import describe_body
from dashboard.call.curl import MAX_PASTED_BYTES, make_curl
from dashboard.call.downloads import FILE_HEADERS, NO_BODY, NO_CALL, BodyFile, Download
from dashboard.call.timing import draw_timing
from dashboard.call.views import open_file, open_new, open_response, open_view
from dashboard.current_counts import CurrentCounts
from dashboard.kept_connections import KeptConnections
from dashboard.rendering import PRIVATE
from dashboard.replay.snippets import list_languages
from runtime.organization_locks import BusyError, OrganizationLocks
from runtime.settings import Settings
from store.control.people import Caller
from store.traces.bodies import MissingPieceError
from store.traces.call_reader import Call, CallReader, Side
from store.traces.found_secrets import count_in_call
from store.traces.paths import trace_path

THREADS = 4
MAX_DOWNLOADS = 8
_UNREADABLE = "This call cannot be read right now. Try again in a moment."
_BUSY = "Earlier requests of your organisation are still running. Try again in a moment."

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallRequest:
    address: Address
    caller: Caller
    path: Path
    by_program: bool


class CallPages:
    """The pages of calls. Enter ``running`` before the first request."""

    def __init__(self, settings: Settings, connections: KeptConnections) -> None:
        self._settings = settings
        self._connections = connections
        self._pool: ThreadPoolExecutor | None = None
        self._locks = OrganizationLocks()
        self._downloads = CurrentCounts[str]()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(THREADS, thread_name_prefix="calls") as self._pool:
            yield

    @property
    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            raise RuntimeError("used before running() was entered")
        return self._pool

    async def respond(
        self, address: Address, caller: Caller, *, by_program: bool = False
    ) -> Response | None:
        """Return the response for an address, or None when the organisation has no calls. Never
        raises sqlite3.Error."""
        target = _CallRequest(
            address=address,
            caller=caller,
            path=trace_path(self._settings.data_dir, caller.organization_id),
            by_program=by_program,
        )
        try:
            if address.side is not None and address.view is None:
                return await self._make_download(target)
            async with self._locks.acquire(caller.organization_id):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._executor, self._respond, target)
        except BusyError:
            return self._render_error(target, 503, "busy", _BUSY)

    # -- in a thread ------------------------------------------------------------------------------

    def _respond(self, target: _CallRequest) -> Response | None:
        try:
            if not target.path.exists():
                return None
            with self._connections.lend(target.path) as connection:
                reader = CallReader(connection)
                if target.address.entry_id is not None:
                    return self._redirect(target, reader.find_id(target.address.entry_id))
                call = reader.find_call(target.address.usage_id)
                if call is None:
                    return self._render_error(target, 404, "not_found", NO_CALL)
                if target.address.side is None:
                    return self._render_call(target, call, reader)
                return self._render_body(target, call, reader)
        except (sqlite3.Error, MissingPieceError, OSError):
            logger.exception("a call cannot be read")
            return self._render_error(target, 503, "unavailable", _UNREADABLE)

    def _redirect(self, target: _CallRequest, usage_id: int | None) -> Response:
        if usage_id is None:
            return self._render_error(target, 404, "not_found", NO_CALL)
        return RedirectResponse(call_address(usage_id), 302, PRIVATE)

    def _render_call(self, target: _CallRequest, call: Call, reader: CallReader) -> Response:
        entry = call.entry
        request = describe_body(call, "request")
        data = None
        if call.request is not None and call.request.length <= MAX_PASTED_BYTES:
            data = reader.read_body(call.id, "request", MAX_PASTED_BYTES)
        url = self._settings.endpoint_url(entry.slug)
        programs: list[tuple[str, str]] = []
        if call.request is not None:
            given = url, self._settings.vendor, entry, data, request.file_name
            programs = [("curl", make_curl(*given)), *list_languages(*given)]
        return self._render(
            "trace.html",
            target,
            call=call,
            headline=facts.make_headline(entry),
            groups=facts.list_facts(call),
            bill=make_bill(entry),
            timing=draw_timing(entry),
            bodies=(request, describe_body(call, "response")),
            new=open_new(call, reader),
            response=open_response(call, reader),
            programs=programs,
            is_pasted=not any(request.file_name in program for _, program in programs),
            session=call.session and session_address(call.session),
            broken=open_break(call),
            secrets=count_in_call(target.path, call.id) if target.caller.role == "owner" else 0,
        )

    def _render_body(self, target: _CallRequest, call: Call, reader: CallReader) -> Response:
        address, side = target.address, cast(Side, target.address.side)
        if address.view == "file":
            return self._render_file(target, call, reader)
        view = open_view(call, address, reader)
        if view is None:
            return self._render_error(target, 404, "not_found", NO_BODY)
        name = "trace_part.html" if address.is_part else "trace_body.html"
        body = describe_body(call, side)
        return self._render(name, target, call=call, body=body, view=view, asked=address)

    def _render_file(self, target: _CallRequest, call: Call, reader: CallReader) -> Response:
        """Return an image or a document of a body. A browser shows four types of images and nothing
        else, and only within our pages."""
        file = open_file(call, target.address, reader)
        if file is None:
            return self._render_error(target, 404, "not_found", NO_BODY)
        headers = dict(FILE_HEADERS)
        if file.picture_type is None:
            place = target.address.place.replace(".", "-")
            name = f"call-{call.id}-{target.address.side}-{place}.{file.suffix}"
            headers["content-disposition"] = f'attachment; filename="{name}"'
        media_type = file.picture_type or "application/octet-stream"
        return Response(file.data, headers=headers, media_type=media_type)

    # -- files ------------------------------------------------------------------------------------

    async def _make_download(self, target: _CallRequest) -> Response | None:
        organization_id = target.caller.organization_id
        if self._downloads[organization_id] >= MAX_DOWNLOADS:
            raise BusyError
        loop = asyncio.get_running_loop()
        with ExitStack() as counted:  # from here on: any number may come while this one is opened
            counted.enter_context(self._downloads.count(organization_id))
            found = await loop.run_in_executor(self._executor, self._open, target)
            if not isinstance(found, BodyFile):
                return found
            return Download(found, self._executor, counted.pop_all())

    def _open(self, target: _CallRequest) -> BodyFile | Response | None:
        """Return a body with its first chunk read, so that an early error is a response and no cut."""
        reader = None
        try:
            if not target.path.exists():
                return None
            reader = CallReader.open(target.path)
            file = BodyFile(reader, target.address.usage_id, cast(Side, target.address.side))
        except (sqlite3.Error, MissingPieceError, OSError):
            logger.exception("a body cannot be read")
            problem = self._render_error(target, 503, "unavailable", _UNREADABLE)
        except LookupError as error:
            problem = self._render_error(target, 404, "not_found", str(error.args[0]))
        else:
            return file
        if reader is not None:
            reader.close()
        return problem

    # -- pages ------------------------------------------------------------------------------------

    def _render_error(self, target: _CallRequest, status: int, code: str, message: str) -> Response:
        if target.by_program:
            return rendering.problem_json(status, code, message, PRIVATE)
        return self._render("trace_problem.html", target, status=status, message=message)

    def _render(
        self, name: str, target: _CallRequest, *, status: int = 200, **context: object
    ) -> Response:
        return rendering.render(
            name, visitor=target.caller, status=status, headers=PRIVATE, **context
        )
