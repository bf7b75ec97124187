"""``POST /statusline``: one line about the session of a client on this machine.

The body is the JSON that Claude Code passes to its status line command. Only the session id is read from
it, and nothing is stored.
"""

import sqlite3

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from dashboard.forms import read_body
from dashboard.rendering import PRIVATE
from dashboard.status_line.memory import StatusMemory
from dashboard.visitors import find_client
from metering.status_line import PARTS, make_line, parse_parts
from runtime import clock
from runtime.errors import NotFoundError
from runtime.local_requests import is_local_request
from runtime.settings import Settings
from wire.json_reading import parse_object

PATH = "/statusline"
MAX_BODY_BYTES = 64 << 10
MAX_ID_CHARS = 200
_TOO_LARGE = f"The body is larger than {MAX_BODY_BYTES} bytes."
_ONLY_HERE = "The status line is for programs on the machine that runs Taximeter."


class StatusLinePages:
    """The address of the status line."""

    def __init__(self, settings: Settings, memory: StatusMemory) -> None:
        self._settings = settings
        self._memory = memory

    def routes(self) -> list[BaseRoute]:
        return [Route(PATH, self.serve, methods=["POST"])]

    async def serve(self, request: Request) -> Response:
        """Serve the line as plain text, with the parts that the query argument ``parts`` names."""
        # A page that a browser shows may send this too, and is not to learn even that.
        if "origin" in request.headers or not is_local_request(
            self._settings, find_client(request), request.headers
        ):
            return _respond(_ONLY_HERE, 403)
        try:
            parts = parse_parts(request.query_params.get("parts", ",".join(PARTS)))
        except ValueError as error:
            return _respond(f"parts: {error}", 400)
        try:
            body = await read_body(request, MAX_BODY_BYTES, _TOO_LARGE, cut="")
        except HTTPException as error:
            return _respond(error.detail, error.status_code)
        try:
            status = await self._memory.get(_find_session_id(body))
        except (sqlite3.Error, NotFoundError):
            return _respond("", 503)
        return _respond(make_line(status, parts, clock.now()), 200)


def _find_session_id(body: bytes) -> str:
    """Return the session id in a body, "" if it has none."""
    session_id = (parse_object(body) or {}).get("session_id")
    if not isinstance(session_id, str) or len(session_id) > MAX_ID_CHARS:
        return ""
    return session_id if session_id.isprintable() else ""


def _respond(line: str, status: int) -> Response:
    return PlainTextResponse(f"{line}\n" if line else "", status, PRIVATE)
