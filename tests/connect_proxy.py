"""The HTTP proxy of a company: it opens connections to hosts, by names that only it knows.

with ConnectProxy({"api.example.com": ("127.0.0.1", upstream.port)}) as proxy:
...  # HTTPS_PROXY=proxy.url
assert proxy.asked == ["api.example.com:443"]
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from tests.upstream import PATIENCE_S

SILENT = "silent.example.com"
USER, PASSWORD = "ana", "pass:w0rd"
REFUSED = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"
UNAUTHORISED = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"


class ConnectProxy:
    """Serves until its block ends. ``asked`` are the targets of requests, ``heads`` their heads. For the host
    ``SILENT`` it never says anything."""

    def __init__(self, hosts: Mapping[str, tuple[str, int]], authorization: str = "") -> None:
        self.asked: list[str] = []
        self.heads: list[str] = []
        self._hosts = hosts
        self._authorization = authorization
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                byte = client.recv(1)
                if not byte:
                    return
                head += byte
            text = head.decode("latin-1")
            target = text.split()[1]
            self.heads.append(text)
            self.asked.append(target)
            if self._authorization and _read_authorization(text) != self._authorization:
                client.sendall(UNAUTHORISED)
                client.close()
                return
            host = target.rpartition(":")[0]
            if host == SILENT:
                client.recv(1)  # until the other side leaves
                return
            if not text.startswith("CONNECT ") or host not in self._hosts:
                client.sendall(REFUSED)
                client.close()
                return
            server = socket.create_connection(self._hosts[host], PATIENCE_S)
            server.settimeout(None)
            self._open.append(server)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            _pump(client, server)


def _read_authorization(head: str) -> str | None:
    """Return the credential for the proxy in a head, or None."""
    lines = (line.partition(": ") for line in head.split("\r\n"))
    return next((value for name, _, value in lines if name.lower() == "proxy-authorization"), None)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
