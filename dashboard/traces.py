"""``/traces``: who asks decides whose Datasette answers.

Datasette is served at its root, with its own addresses: a path prefix (``base_url``) is fragile in
0.65. Only what starts with ``/traces`` reaches it, and its static files, which are the same for
everybody; so its pages about the server (``/-/settings``, ``/-/threads``, …) have no address here.
It gets neither cookies nor credentials: it has no use for them.
"""

import logging
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.instances import BusyError, Instances
from dashboard.patched_datasette import STATIC
from dashboard.visitors import Asker, Visitors, session_cookie
from store.settings import Settings

HERE = Path(__file__).parent
# Datasette's pages have style blocks and attributes; scripts come from files only (see the templates
# in dashboard/datasette, which replace those with scripts in them).
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"private, no-store"),
]
_OURS = re.compile(rb"/traces(?:[/.].*)?", re.DOTALL)
_FOR_PROGRAMS = re.compile(r".*\.(?:csv|jsono?|blob)", re.DOTALL)
_MAX_ADDRESS_BYTES = 8_000  # of a page to come back to after signing in
_DROPPED_REQUEST_HEADERS = {b"authorization", b"cookie", b"x-taximeter-client"}
_DROPPED_ANSWER_HEADERS = {name for name, _ in _HEADERS} | {b"set-cookie"}

logger = logging.getLogger(__name__)


class Traces:
    """An ASGI application; ``running`` must be entered before it is asked."""

    def __init__(self, settings: Settings, *, max_open: int | None = None) -> None:
        self._settings = settings
        self._scheme = urlsplit(settings.base_url).scheme
        self._cookie = session_cookie(settings.base_url)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
        )
        self.instances = Instances(settings.data_dir)
        if max_open is not None:
            self.instances.max_open = max_open
        self._visitors: Visitors | None = None

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/traces{rest:path}", self),
            Mount("/-/static", StaticFiles(directory=STATIC)),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises sqlite3.Error, OSError."""
        with Visitors.open(self._settings.control_path) as self._visitors:
            try:
                yield
            finally:
                self.instances.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = self._refuse(request)
        if answer is None:
            try:
                asker = await self._find_asker(request)
            except sqlite3.Error:
                logger.exception("control.db cannot be read")
                answer = _problem(503, "unavailable", "Try again in a moment.")
            else:
                if asker is not None:
                    await self._browse(asker, request, scope, receive, send)
                    return
                answer = self._ask_to_sign_in(request)
        await answer(scope, receive, send)

    def _refuse(self, request: Request) -> Response | None:
        path = _raw_path(request.scope)
        if not _OURS.fullmatch(path) or not path.isascii() or path.endswith(b".db"):
            return _problem(404, "not_found", "There is no such page.")
        if request.method not in ("GET", "HEAD"):
            problem = _problem(405, "method_not_allowed", "Traces can only be read.")
            problem.headers["allow"] = "GET, HEAD"
            return problem
        return None

    async def _find_asker(self, request: Request) -> Asker | None:
        if self._visitors is None:
            raise RuntimeError("asked before `running` was entered")
        credentials = request.headers.getlist("authorization")
        if len(credentials) > 1:
            return None
        return await self._visitors.find(
            credentials[0] if credentials else None, request.cookies, self._cookie
        )

    def _ask_to_sign_in(self, request: Request) -> Response:
        """A browser is sent to the page; a program is told in JSON."""
        if _is_for_program(request):
            problem = _problem(
                401, "not_signed_in", "Sign in, or send a service API key as Bearer."
            )
            problem.headers["www-authenticate"] = "Bearer"
            return problem
        here = _raw_path(request.scope) + b"?" + request.scope["query_string"]
        target = "/sign-in"
        if len(here) <= _MAX_ADDRESS_BYTES:
            target += f"?next={quote(here.rstrip(b'?').decode('latin-1'), safe='/')}"
        return RedirectResponse(target, 303, {"cache-control": "no-store"})

    async def _browse(
        self, asker: Asker, request: Request, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            with self.instances.use(asker.organization_id) as app:
                if app is not None:
                    await _ask_datasette(app, self._scope(scope, asker), receive, send)
                    return
                answer = self._say_nothing_recorded(request)
        except BusyError:
            answer = _problem(503, "busy", "Earlier queries are still running.")
            answer.headers["retry-after"] = "3"
        await answer(scope, receive, send)

    def _say_nothing_recorded(self, request: Request) -> Response:
        if _is_for_program(request):
            return _problem(404, "nothing_recorded", "Nothing has been recorded yet.")
        page = self._templates.get_template("nothing_recorded.html").render(visitor=True)
        status = 200 if _raw_path(request.scope) == b"/traces" else 404
        return HTMLResponse(page, status, {"cache-control": "no-store"})

    def _scope(self, scope: Scope, asker: Asker) -> Scope:
        headers = [item for item in scope["headers"] if item[0] not in _DROPPED_REQUEST_HEADERS]
        actor = {"id": asker.user_id, "display": asker.name}
        return {**scope, "headers": headers, "scheme": self._scheme, "actor": actor}


async def _ask_datasette(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """With our headers, and nothing of an error but that it happened: Datasette's pages for those
    repeat the exception, which may tell paths."""
    has_failed = False

    async def send_guarded(message: Message) -> None:
        nonlocal has_failed
        if message["type"] == "http.response.start":
            has_failed = message["status"] >= 500
            kept = (
                item
                for item in message.get("headers", ())
                if item[0].lower() not in _DROPPED_ANSWER_HEADERS
            )
            message = {**message, "headers": [*kept, *_HEADERS]}
        if not has_failed:
            await send(message)

    await app(scope, receive, send_guarded)
    if has_failed:
        logger.error("datasette could not answer a request")
        answer = _problem(500, "internal", "This could not be shown.")
        await answer(scope, receive, send)


def _problem(status: int, code: str, message: str) -> JSONResponse:
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status, {"cache-control": "no-store"})


def _is_for_program(request: Request) -> bool:
    if "authorization" in request.headers:
        return True
    accept = request.headers.get("accept", "")
    if "application/json" in accept and "text/html" not in accept:
        return True
    return _FOR_PROGRAMS.fullmatch(_raw_path(request.scope).decode("latin-1")) is not None


def _raw_path(scope: Scope) -> bytes:
    """As it came: Datasette too decides by this one."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.partition(b"?")[0]
