"""``/sessions/<id>/export.html``: a session as one HTML file, to keep or to pass on."""

import logging
import re
import sqlite3
from collections.abc import AsyncGenerator
from dataclasses import fields as dataclass_fields
from itertools import batched

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute
from starlette.types import Send

from dashboard.call_route import CallRoute
from dashboard.current_counts import CurrentCounts
from dashboard.export.parts import FileView, find_call
from dashboard.export.session_file import SessionFile
from dashboard.rendering import PRIVATE
from dashboard.sessions.opened import NO_SESSION, open_view
from dashboard.site import Site
from dashboard.trace_work import TracePages
from dashboard.visitors import NotSignedInError
from runtime.errors import InvalidInputError
from store.control.people import Caller
from store.control.sessions import Visitor
from store.traces.sessions.opened import find_reader

MAX_EXPORTS = 2  # of one organisation at once
_PARTS_AT_ONCE = 5  # between two looks whether the caller may still read
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_HEADERS = {
    **PRIVATE,
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
}

logger = logging.getLogger(__name__)


class _CutResponse(StreamingResponse):
    """A response that is cut if its rest cannot be made, so that no client takes the part for the whole.
    It ends without its last chunk, and the reason is logged."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (NotSignedInError, HTTPException, sqlite3.OperationalError) as error:
            logger.warning("The export of a session was cut: %s", _describe_cut(error))


def _describe_cut(error: Exception) -> str:
    """Return the reason for which an export was cut, for the log, without text from the session."""
    if isinstance(error, NotSignedInError):
        return "its caller may no longer read it"
    return error.detail if isinstance(error, HTTPException) else str(error)


class SharePages(TracePages):
    """The pages that export sessions of the caller's organisation as files."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._exports = CurrentCounts[str]()

    def routes(self) -> list[BaseRoute]:
        """Return the routes. They must come before those of sessions, since a session id may hold slashes."""
        return [CallRoute("/sessions/{session_id:path}/export.html", self.export_session)]

    async def export_session(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        session_id = request.path_params["session_id"]
        with_bodies = _parse_choice(request.query_params.get("bodies", "no"))
        if self._exports[caller.organization_id] >= MAX_EXPORTS:
            message = f"{MAX_EXPORTS} exports of your organisation are still going on."
            raise HTTPException(429, message, {"retry-after": "10"})

        def begin(db: sqlite3.Connection | None) -> SessionFile:
            return _begin(db, session_id, caller, with_bodies=with_bodies)

        file = await self._work.run(caller, begin)
        name = _NOT_PLAIN.sub("-", session_id)[:80].strip("-.") or "session"
        disposition = f'attachment; filename="session-{name}.html"'
        return _CutResponse(
            self._send(request, caller, file),
            media_type="text/html; charset=utf-8",
            headers={**_HEADERS, "content-disposition": disposition},
        )

    async def _send(
        self, request: Request, caller: Caller, file: SessionFile
    ) -> AsyncGenerator[str]:
        """Yield the file in parts. Raises NotSignedInError and the errors of ``PageForwarding.fetch``."""
        with self._exports.count(caller.organization_id):
            yield file.head
            pictures_bytes = 0
            for parts in batched(file.parts, _PARTS_AT_ONCE):
                await self._visitors.check_caller(request, caller)
                words: dict[int | None, str] = {}
                calls = [call for part in parts if (call := find_call(part)) is not None]
                if file.view.with_bodies and calls:
                    asked = {"usage_ids": calls, "pictures_bytes": pictures_bytes}
                    found = await self._site.forwarding.fetch(request, caller, "export", asked)
                    words = dict(zip(calls, found["words"], strict=True))
                    pictures_bytes = found["pictures_bytes"]
                yield "".join(
                    file.render_turn(part, words.get(find_call(part), "")) for part in parts
                )
            yield file.render_foot()


def _begin(
    db: sqlite3.Connection | None, session_id: str, caller: Caller, *, with_bodies: bool
) -> SessionFile:
    """Return the file of a session, not rendered yet. Raises HTTPException if there is no such session."""
    shown = open_view(find_reader(db), session_id, 1, {})
    if shown is None:
        raise HTTPException(404, NO_SESSION)
    fields = {each.name: getattr(shown, each.name) for each in dataclass_fields(shown)}
    view = FileView(**fields, with_bodies=with_bodies)
    return SessionFile(view, caller, exported_by=_name(caller))


def _name(caller: Caller) -> str:
    if isinstance(caller, Visitor):
        return f"{caller.email or 'the local user'}, {caller.organization_name}"
    return "a service API key"


def _parse_choice(text: str) -> bool:
    """Return whether the argument ``bodies`` is "yes". Raises InvalidInputError if it is neither yes nor
    no."""
    if text not in ("yes", "no"):
        raise InvalidInputError("bodies must be yes or no", "bodies")
    return text == "yes"
