"""Accepting connections on a socket on which several processes accept.

All of them wake up for a connection, and the fastest takes it. asyncio's server takes all waiting
connections at once, so one process may get most of them, and keeps them for as long as they live. Here
a process that has more connections than another waits a moment first, and then takes what is still
waiting."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from addon.connection_limit import ConnectionLimit
from runtime.descriptors import read_limit
from runtime.worker_board import Shared, WorkerBoard

# How long the others are given, which is longer than an event loop that is not at its limit takes.
GIVE_WAY_S = 0.005
# So many are taken after that; and in one turn of the loop. To begin with each takes up to a millisecond,
# for which those that are served already have to wait in every turn.
MOST_AFTERWARDS, MOST_IN_TURN = 4, 8
# How long to wait where there is no room for a connection: for idle ones to be closed.
NO_ROOM_S = 0.02
# The last descriptors, an eighth of few, are not for new connections: the calls of those that are there
# take one for the spool and one for the upstream, and what cannot be written to the spool is not logged.
KEPT_DESCRIPTORS = 32

type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Acceptor:
    """Accepts connections for a server of mitmproxy, in place of ``asyncio.Server``."""

    def __init__(
        self, listener: socket.socket, board: WorkerBoard, limit: ConnectionLimit, serve: Serve
    ) -> None:
        self.sockets = (listener,)
        self._listener = listener
        self._board = board
        self._limit = limit
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def start(self) -> None:
        """Start accepting connections."""
        self._listener.setblocking(False)
        self._board.begin_serving()
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Stop accepting connections. The socket stays open in other processes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._board.end_serving()
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(MOST_IN_TURN):
            if self._board.has_most_connections():
                self._pause(GIVE_WAY_S, self._accept_some)
                return
            if not self._accept_one():
                return

    def _accept_some(self) -> None:
        """Accept some of the connections that other processes have left, and then accept as before."""
        self._loop.add_reader(self._listener, self._accept)
        for _ in range(MOST_AFTERWARDS):
            if not self._accept_one():
                return

    def _accept_one(self) -> bool:
        """Accept one connection; return whether more may be waiting."""
        try:
            _check_room(self._listener)
            connection, peer = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process has taken it, or it has ended
        except OSError as error:
            self._loop.call_exception_handler(
                {
                    "message": "a connection could not be accepted",
                    "exception": error,
                    "socket": self._listener,
                }
            )
            add_reader = partial(self._loop.add_reader, self._listener, self._accept)
            self._pause(NO_ROOM_S, add_reader)
            return False
        connection.setblocking(False)
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            # Its client has left while it waited. To serve it takes a hundred times as long as this, and
            # others wait behind it.
            connection.close()
            return True
        client = self._limit.find_client(peer[0])
        if not self._limit.enter(client):
            self._limit.turn_away(connection, client)
            return True
        self._board.add(Shared.CONNECTIONS, 1)
        task = self._loop.create_task(self._begin(connection, client))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)
        return True

    def _pause(self, pause_s: float, then: Callable[[], object]) -> None:
        self._loop.remove_reader(self._listener)
        self._later = self._loop.call_later(pause_s, then)

    async def _begin(self, connection: socket.socket, client: str) -> None:
        """Serve a connection in its own task, as ``asyncio.start_server`` does."""
        reader = asyncio.StreamReader(loop=self._loop)
        serve = partial(self._serve_one, client)
        protocol = asyncio.StreamReaderProtocol(reader, serve, loop=self._loop)
        with suppress(OSError):  # it has ended
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
            return
        self._count_end(client)
        connection.close()

    async def _serve_one(
        self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._serve(reader, writer)
        finally:
            self._count_end(client)

    def _count_end(self, client: str) -> None:
        self._board.add(Shared.CONNECTIONS, -1)
        self._limit.leave(client)


def _check_room(listener: socket.socket) -> None:
    """Raise OSError if the only free descriptors are those reserved for calls."""
    free = os.dup(listener.fileno())  # the lowest number that is free
    os.close(free)
    limit = read_limit()
    if free >= limit - min(KEPT_DESCRIPTORS, limit // 8):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
