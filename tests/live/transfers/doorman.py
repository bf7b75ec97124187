"""A relay before the upstream, whose connections wait until a test lets them in.

A connection that waits is made for TCP, and its TLS handshake has not begun: the proxy is connecting.
"""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.upstream import PATIENCE_S

KERNEL_BYTES = 256 << 10
"""The size of the kernel's buffer for what comes on a connection. By itself it grows, up to 32 MiB."""


def create_bounded_server() -> socket.socket:
    """Return a listening socket on whose connections the kernel keeps little that nobody reads."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


class Doorman:
    """Relays connections on ``port`` to the upstream's port, at once while ``is_open``."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream = ("127.0.0.1", upstream_port)
        self._listener = create_bounded_server()
        self.port: int = self._listener.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._arrivals = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(PATIENCE_S)
        self.cut_all()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    @property
    def is_relaying(self) -> bool:
        """Return whether a connection is there, or waits to be let in."""
        return any(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Let connections that come from now on wait."""
        while self._arrivals.acquire(blocking=False):
            pass
        self._open.clear()

    def open(self) -> None:
        """Let all in that wait, and all that come."""
        self._open.set()

    def cut_all(self) -> None:
        """End all connections, also those on which somebody does not read."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def wait_arrival(self) -> None:
        """Wait until a connection has come since ``close``."""
        assert self._arrivals.acquire(timeout=PATIENCE_S), "no connection came"

    def _accept(self) -> None:
        while True:
            try:
                outer, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(outer)
            thread = threading.Thread(target=self._relay, args=(outer,), daemon=True)
            self._threads.append(thread)
            thread.start()
            self._arrivals.release()

    def _relay(self, outer: socket.socket) -> None:
        self._open.wait(PATIENCE_S)
        inner = socket.socket()
        inner.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        inner.connect(self._upstream)
        self._sockets.append(inner)
        for each in (inner, outer):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pump, args=(inner, outer), daemon=True)
        back.start()
        _pump(outer, inner)
        back.join()
        outer.close()
        inner.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy until the end of ``source``, and hand that on; a reset ends both."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
