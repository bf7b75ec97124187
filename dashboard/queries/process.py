"""A query process, which runs Datasette for one request at a time on a Unix socket.

It is forked from the pool, so that a new one is ready within milliseconds, and may be killed at any
time: it holds nothing that would be lost. The kernel bounds what it does for a request: memory and file
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
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dashboard.queries import isolation
from dashboard.queries.protocol import READING_SIGNAL, RUNNING, SOCKET_SUFFIX, Caller
from dashboard.tables import response_guard
from dashboard.tables.errors import RequestState
from dashboard.tables.instances import Instances
from runtime.joined_writes import JoinedWrites

# The query proxy kills after 4 s; these hold when the web process has ended or stands still.
ALARM_S, ALARM_BETWEEN_MESSAGES_S = 12, 90
MAX_GROWN_BYTES = 160 << 20  # an idle one has some 55
MAX_HEADER_BYTES = 192 << 10
READY, READING = b"r", b"s"


class QueryApp:
    """The ASGI application of a query process. ``should_end`` is set when this was its last request,
    ``abandoned`` when nobody waits for the response any more."""

    def __init__(self, traces: Path) -> None:
        self.abandoned = threading.Event()
        self.instances = Instances(traces, self.abandoned)
        self.should_end = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = Caller.decode(dict(scope["headers"]))
        with self.instances.use(caller.organization_id) as app:
            if app is not None:
                await response_guard.send_response(app, _describe(scope, caller), send)
                return
        refusal = JSONResponse({"ok": False, "error": "Nothing has been recorded."}, 404)
        await refusal(scope, receive, send)


def _describe(scope: Scope, caller: Caller) -> Scope:
    return {
        **scope,
        "scheme": caller.scheme,
        "actor": {
            "id": caller.user_id,
            "display": caller.display,
            "organization": caller.organization,
        },
        "taximeter": RequestState(is_for_program=caller.is_for_program),
    }


class Supervised:
    """Middleware that sets the alarm, and reports to the pool on a pipe."""

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
        signal.alarm(ALARM_S)
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
        """Have the pool start another process; this one ends with its response. The query proxy requests it
        when a client reads slowly: for this process a response may be finished that waits in a buffer."""
        if not self._should_end.is_set():
            self._should_end.set()
            os.write(self._pool_fd, READING)


def peak_bytes() -> int:
    """Return the most memory that this process has ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def run(traces: Path, sockets: Path, pool_fd: int, alive_fd: int) -> None:
    """Serve until the pool is gone (the end of ``alive_fd``), or this process has to end."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=_end_with_pool, args=(alive_fd,), daemon=True).start()
    asyncio.run(_serve(traces, sockets, pool_fd))


class _Protocol(H11Protocol):
    """The HTTP protocol, which confirms a request, and stops it when nobody waits for the response.

    ``on_broken`` is called when the connection ends while the response is being made."""

    abandoned: threading.Event
    on_broken: Callable[[], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._joined = JoinedWrites(transport)
        super().connection_made(cast(asyncio.Transport, self._joined))

    def data_received(self, data: bytes) -> None:
        cycle = getattr(self, "cycle", None)  # None before the request
        if cycle is None:
            super().data_received(data)
            if self.cycle is not None:
                self.transport.write(RUNNING)
                self._joined.flush()  # before anything is computed
        elif self.tasks:
            self.abandoned.set()
            cycle.disconnected = True  # what is sent from now on is dropped
            for task in self.tasks:
                task.add_done_callback(lambda _task: self.transport.abort())

    def connection_lost(self, error: Exception | None) -> None:
        is_whole = getattr(self.cycle, "response_complete", True)
        is_broken = not is_whole and any(not task.done() for task in self.tasks)
        super().connection_lost(error)
        if is_broken:
            self.on_broken()


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


async def listen(
    app: ASGIApp,
    listener: socket.socket,
    abandoned: threading.Event,
    on_broken: Callable[[], None],
) -> asyncio.Server:
    """Serve an ASGI application over HTTP/1.1, without the rest of uvicorn: its server looks at the
    clock ten times a second, and there is nothing to reload or to count here."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    config.load()

    def make_protocol() -> _Protocol:
        protocol = _Protocol(config=config, server_state=ServerState(), app_state={})
        protocol.abandoned = abandoned
        protocol.on_broken = on_broken
        return protocol

    return await asyncio.get_running_loop().create_unix_server(make_protocol, sock=listener)


def _end_with_pool(alive_fd: int) -> None:
    while os.read(alive_fd, 1):
        pass
    os._exit(0)
