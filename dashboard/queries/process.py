"""A query process, which serves one request at a time on a Unix socket: by Datasette, or a page of
text.

It is forked from the pool, so that a new one is ready within milliseconds. It may be killed at any time,
since it holds nothing that would be lost. The kernel bounds what it does for a request: memory and file
sizes (see isolation), and its time by an alarm, in case nothing else kills it.
"""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.queries import isolation
from dashboard.queries.connections import listen
from dashboard.queries.page_renderer import PageRenderer
from dashboard.queries.page_request import PageRequest
from dashboard.queries.protocol import READING_SIGNAL, SOCKET_SUFFIX
from dashboard.tables import response_guard
from dashboard.tables.errors import RequestState
from dashboard.tables.instances import Instances
from store.control.sessions import Visitor

# The query proxy kills after 4 s, and pages after 30 s; these hold when the web process has ended or stands
# still.
ALARM_S, PAGE_ALARM_S, ALARM_BETWEEN_MESSAGES_S = 12, 60, 90
MAX_GROWN_BYTES = 160 << 20  # an idle one has some 55
READY, READING = b"r", b"s"


class QueryApp:
    """The ASGI application of a query process. ``should_end`` is set if the present request is its last
    one, ``abandoned`` if the web process does not want the response any more."""

    def __init__(self, traces: Path) -> None:
        self.abandoned = threading.Event()
        self.instances = Instances(traces, self.abandoned)
        self.pages = PageRenderer(traces)
        self.should_end = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = PageRequest.read(scope)
        if not page.is_of_tables:
            body = await Request(scope, receive).body()
            # Not in a thread: what is to be stopped here is killed.
            response = self.pages.render(page, body)
            await response(scope, receive, send)
            return
        with self.instances.use(page.caller.organization_id) as app:
            if app is not None:
                await response_guard.send_response(app, _describe(scope, page), receive, send)
                return
        refusal = JSONResponse({"ok": False, "error": "Nothing has been recorded."}, 404)
        await refusal(scope, receive, send)


def _describe(scope: Scope, page: PageRequest) -> Scope:
    """Return the scope of a request for Datasette. Links get the scheme of the service's base URL."""
    caller = page.caller
    display, organization = "service API key", ""
    if isinstance(caller, Visitor):
        display, organization = caller.email or "local user", caller.organization_name
    return {
        **scope,
        "scheme": urlsplit(page.base_url).scheme,
        "actor": {"id": caller.user_id, "display": display, "organization": organization},
        "taximeter": RequestState(is_for_program=page.is_for_program),
    }


class Supervised:
    """Middleware that limits the time of a request by an alarm, and reports to the pool on a pipe."""

    def __init__(
        self,
        app: ASGIApp,
        should_end: asyncio.Event,
        abandoned: threading.Event,
        pool_fd: int,
    ) -> None:
        self._app = app
        self._should_end = should_end
        self._abandoned = abandoned
        self._pool_fd = pool_fd

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_watched(message: Message) -> None:
            signal.alarm(ALARM_BETWEEN_MESSAGES_S)
            await send(message)

        self._abandoned.clear()
        signal.alarm(ALARM_S if PageRequest.read(scope).is_of_tables else PAGE_ALARM_S)
        try:
            await self._app(scope, receive, send_watched)
        except Exception:
            if not self._abandoned.is_set():  # otherwise it failed because it was interrupted
                raise
        finally:
            signal.alarm(0)
            if peak_bytes() > MAX_GROWN_BYTES:
                self.leave_pool()

    def leave_pool(self) -> None:
        """Have the pool start another process; this one ends after its response.

        It is called if memory has grown too much. The query proxy also requests it by a signal if a
        client reads slowly, since this process may be finished with a response that waits in a buffer."""
        if not self._should_end.is_set():
            self._should_end.set()
            os.write(self._pool_fd, READING)


def peak_bytes() -> int:
    """Return the most memory in bytes that this process has ever used."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def run(traces: Path, sockets: Path, pool_fd: int, alive_fd: int) -> None:
    """Serve requests until ``should_end`` is set, or the pool has ended (``alive_fd`` is closed)."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=_end_with_pool, args=(alive_fd,), daemon=True).start()
    asyncio.run(_serve(traces, sockets, pool_fd))


async def _serve(traces: Path, sockets: Path, pool_fd: int) -> None:
    app = QueryApp(traces)
    # Sooner visible than listening, it would refuse whoever comes first.
    path = sockets / f"{os.getpid()}.new"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        supervised = Supervised(app, app.should_end, app.abandoned, pool_fd)
        asyncio.get_running_loop().add_signal_handler(READING_SIGNAL, supervised.leave_pool)
        # A web process that has ended kills nobody; its successor would find a busy one, taken for idle.
        server = await listen(supervised, listener, app.abandoned, lambda: os._exit(0))
        path.rename(path.with_suffix(SOCKET_SUFFIX))
        isolation.refuse_other_files(traces)
        os.write(pool_fd, READY)
        await app.should_end.wait()
        server.close()
        await server.wait_closed()


def _end_with_pool(alive_fd: int) -> None:
    while os.read(alive_fd, 1):
        pass
    os._exit(0)
