"""The web process: everything below the base URL except ``/proxy``, on a loopback socket.

The front door forwards to it. It accepts only the host names of this service, so that no page on the
internet can reach it with a name that resolves to this machine (DNS rebinding)."""

from runtime import loading

# isort: split

import argparse
import asyncio
import atexit
import contextlib
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dashboard.app import CallPages, Dashboard
from dashboard.call_route import CallRoute
from dashboard.json_pages import PAGES as JSON_PAGES
from dashboard.mail.mailer import Mailer
from dashboard.slow_readers import SlowReaders
from dashboard.visitors import StatedCallers
from manage.api.routes import Api
from manage.client_address import ClientAddress
from manage.metrics.routes import METRICS, Metrics
from manage.supervision.workers import Workers
from runtime import address_space, extensions, logs, parent_watch, readiness, stacks
from runtime.attempts import make_bad_key_limit
from runtime.descriptors import AcceptErrors
from runtime.joined_writes import JoinedWrites
from runtime.json_lines import make_line_format
from runtime.local_requests import parse_host
from runtime.settings import CLIENT_MARK_VARIABLE, LOOPBACK_HOSTS, Settings, SettingsError
from runtime.terminal_output import LineWriter

loading.finish()

logger = logging.getLogger(__name__)


class FrontDoor(Protocol):
    """An ASGI application in front of the routes, which may forward requests to other machines."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


class KnownHosts:
    """Middleware that refuses requests whose host name is not one of ``hosts``, except for ``/livez``."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/livez":
            values = [value for name, value in scope["headers"] if name == b"host"]
            if len(values) != 1 or parse_host(values[0].decode("latin-1")) not in self._hosts:
                refusal = PlainTextResponse(
                    "This service has another host name. Use the address in TAXIMETER_BASE_URL.\n",
                    421,
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Middleware that adds security headers: pages load nothing from elsewhere, run no inline
    scripts, and cannot be framed.

    A header that a page sets itself is kept: Datasette's pages need scripts."""

    HEADERS = (
        (
            b"content-security-policy",
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
            b" connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"x-frame-options", b"DENY"),
    )

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                own = {name.lower() for name, _ in headers}
                ours = (header for header in self.HEADERS if header[0] not in own)
                message["headers"] = [*headers, *ours]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class SlashRedirect:
    """Redirects a path with trailing slashes to the path without, by a URL without scheme and host.

    Starlette's own redirect would name the scheme, host and port of the socket behind the front door,
    which are not those of the public address."""

    def __init__(self, router: Router) -> None:
        router.redirect_slashes = False
        self._router = router
        self._not_found = router.default
        router.default = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/")
        if scope["type"] == "http" and path not in ("", scope["path"]) and self._has(scope, path):
            raw_path, query = scope["raw_path"].rstrip(b"/"), scope["query_string"]
            target = (raw_path + b"?" + query if query else raw_path).decode("latin-1")
            await RedirectResponse(target)(scope, receive, send)
            return
        await self._not_found(scope, receive, send)

    def _has(self, scope: Scope, path: str) -> bool:
        target = {**scope, "path": path}
        return any(route.matches(target)[0] is not Match.NONE for route in self._router.routes)


def make_app(
    settings: Settings,
    print_line: Callable[[str], None] = print,
    supervisor_pid: int | None = None,
    board_fd: int | None = None,
    *,
    is_demo: bool = False,
) -> Starlette:
    """Return the application of the web process.

    ``print_line`` prints a line on the terminal. ``supervisor_pid`` is the process whose children
    ``/metrics`` describes, and ``board_fd`` the board of the proxy's workers. ``is_demo``: everybody
    at this machine may sign in. On a machine without sign-in the application has only the pages of
    calls, for callers that another machine states."""
    api_workers, page_workers = Workers(settings, "api"), Workers(settings, "pages")
    bad_keys = make_bad_key_limit()
    hooks = extensions.call()
    stated: StatedCallers | None = hooks.stated_callers(
        settings=settings, pool=page_workers, bad_keys=bad_keys
    )
    pages: CallPages
    outer, inner = [], []
    if stated is None:
        mailer = Mailer(settings, print_line)
        pages = Dashboard(settings, page_workers, mailer, bad_keys, is_demo=is_demo)
        hosts = LOOPBACK_HOSTS | {urlsplit(settings.base_url).hostname or ""}
        outer = [Middleware(KnownHosts, hosts=hosts)]
    else:
        pages = CallPages(settings, stated.visitors)
        inner = [stated.middleware]
    api = Api(settings, api_workers, bad_keys, JSON_PAGES)
    metrics = Metrics(
        settings, api_workers, bad_keys, supervisor_pid, board_fd, takes_keys=stated is None
    )

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        with api_workers.running(), page_workers.running(), pages.running():
            async with front_door or contextlib.nullcontext():
                yield

    app = Starlette(
        routes=[
            Route("/livez", _live),
            api.route(),
            CallRoute(METRICS, metrics.serve),
            *pages.routes(),
        ],
        lifespan=lifespan,
        exception_handlers=pages.exception_handlers(),
        middleware=[
            *outer,
            Middleware(SecurityHeaders),
            Middleware(ClientAddress, mark=os.environ.get(CLIENT_MARK_VARIABLE, "")),
            Middleware(SlowReaders),
            *inner,
        ],
    )
    SlashRedirect(app.router)
    front_door: FrontDoor | None = hooks.front_door(
        settings=settings,
        app=app.router.middleware_stack,
        routes=app.routes,
        visitors=pages.visitors,
        pool=page_workers,
    )
    if front_door is not None:  # here its errors become responses like those of the routes
        app.router.middleware_stack = front_door
    app.state.end_streams = pages.end_streams
    return app


async def _live(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


class _Protocol(HttpToolsProtocol):
    """The HTTP protocol of uvicorn, with head and body of a small response sent in one write."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, JoinedWrites(transport)))


class Server(uvicorn.Server):
    """Uvicorn that leaves Ctrl-C to the supervisor.

    ``end_streams`` is called at shutdown to end responses that would last as long as their pages are
    open."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        AcceptErrors(logger).watch(asyncio.get_running_loop())
        await super().startup(sockets)
        if self.started:
            readiness.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)

    def stop(self) -> None:
        self.should_exit = True


def make_config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """Return the configuration of uvicorn.

    An idle connection is kept for longer than the proxy keeps one, or the proxy would send requests on
    connections that are being closed."""
    return uvicorn.Config(
        app,
        http=_Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anybody can write x-forwarded-for; see ClientAddress
        timeout_graceful_shutdown=1,
        timeout_keep_alive=3 * math.ceil(settings.request_idle_seconds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m manage.server", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="a listening socket")
    parser.add_argument("--board-fd", type=int, help="the board of the proxy's workers")
    # An argument, since people have no say in these: a variable might be set for a service.
    parser.add_argument(
        "--demo", action="store_true", help="whoever is at this machine may sign in"
    )
    arguments = parser.parse_args()
    logs.configure("web")
    stacks.write_at_signal()
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        sys.exit(f"taximeter: {error}")
    address_space.limit(settings.web_memory)
    terminal = LineWriter(sys.stdout)
    atexit.register(terminal.close)
    supervisor_pid = None if parent_watch.inherited_fd() is None else os.getppid()
    in_format = make_line_format("web", settings.log_format)
    app = make_app(
        settings,
        lambda text: terminal.write_line(in_format(text)),
        supervisor_pid,
        arguments.board_fd,
        is_demo=arguments.demo,
    )
    server = Server(make_config(app, settings), app.state.end_streams)
    parent_watch.watch(server.stop)
    # Uvicorn would take a bare descriptor for a Unix socket. asyncio then leaves out TCP_NODELAY, and
    # every response whose head and body are two writes waits 40 ms for an acknowledgement.
    server.run([socket.socket(fileno=arguments.fd)])


if __name__ == "__main__":
    main()
