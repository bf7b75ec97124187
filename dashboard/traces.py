"""``/traces``: who asks decides whose Datasette answers.

Datasette is served at its root, with its own addresses: a path prefix (``base_url``) is fragile in
0.65. Only what starts with ``/traces`` reaches it, and its static files, which are the same for
everybody; so its pages about the server (``/-/settings``, ``/-/threads``, …) have no address here.
It gets neither cookies nor credentials: it has no use for them.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard import pages
from dashboard.addresses import raw_path
from dashboard.instances import MAX_OPEN, BusyError, Instances
from dashboard.patched_datasette import STATIC
from dashboard.visitors import Visitors
from store.people import Caller
from store.settings import Settings
from store.sign_in import Visitor

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
_OURS = re.compile(r"/traces(?:[/.].*)?", re.DOTALL)
_DROPPED_REQUEST_HEADERS = {b"authorization", b"cookie"}
_DROPPED_ANSWER_HEADERS = {name for name, _ in _HEADERS} | {b"set-cookie"}

logger = logging.getLogger(__name__)


class Traces:
    """An ASGI application; ``running`` must be entered before it is asked."""

    def __init__(self, settings: Settings, visitors: Visitors, *, max_open: int = MAX_OPEN) -> None:
        self._scheme = urlsplit(settings.base_url).scheme
        self._visitors = visitors
        self.instances = Instances(settings.data_dir, max_open)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/traces{rest:path}", self),
            Mount("/-/static", StaticFiles(directory=STATIC)),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
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
        try:
            with self.instances.use(caller.organization_id) as app:
                if app is not None:
                    await _ask_datasette(app, request, self._scope(scope, caller), receive, send)
                    return
                answer = _say_nothing_recorded(request, caller)
        except BusyError as error:
            raise HTTPException(
                503, "Earlier queries are still running.", {"retry-after": "3"}
            ) from error
        await answer(scope, receive, send)

    def _scope(self, scope: Scope, caller: Caller) -> Scope:
        headers = [item for item in scope["headers"] if item[0] not in _DROPPED_REQUEST_HEADERS]
        actor = {"id": caller.user_id, "display": _name(caller)}
        return {**scope, "headers": headers, "scheme": self._scheme, "actor": actor}


def _name(caller: Caller) -> str:
    if isinstance(caller, Visitor):
        return caller.email or "local user"
    return "service API key"


def _say_nothing_recorded(request: Request, caller: Caller) -> Response:
    if pages.is_for_program(request):
        return pages.problem_json(404, "nothing_recorded", "Nothing has been recorded yet.")
    status = 200 if raw_path(request.scope) in ("/traces", "/traces/usage") else 404
    return pages.show("nothing_recorded.html", visitor=caller, status=status)


async def _ask_datasette(
    app: ASGIApp, request: Request, scope: Scope, receive: Receive, send: Send
) -> None:
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
        answer = pages.refuse(request, 500, "internal_error", "This could not be shown.")
        await answer(scope, receive, send)
