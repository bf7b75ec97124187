"""A network in which a client is direct: what it sends its vendor comes to the scripted upstream.

A client without a base URL asks for a tunnel to ``api.anthropic.com`` and does TLS in it, as it would without
a proxy; here the tunnel ends, with a certificate that the client is told to trust. So its requests are those
of a client that has nothing in between.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import trustme

from tests.upstream import PATIENCE_S, Upstream

HOST = "api.anthropic.com"


@contextmanager
def direct_network(upstream: Upstream, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables of a client in such a network."""
    authority = trustme.CA()
    trust = folder / "direct-ca.pem"
    authority.cert_pem.write_to_path(trust)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(tls)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, tls, upstream), daemon=True).start()
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NODE_EXTRA_CA_CERTS": str(trust)}
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, tls: ssl.SSLContext, upstream: Upstream) -> None:
    with suppress(OSError):  # it is closed
        while True:
            client, _ = listener.accept()
            client.settimeout(PATIENCE_S)
            threading.Thread(target=_serve, args=(client, tls, upstream), daemon=True).start()


def _serve(client: socket.socket, tls: ssl.SSLContext, upstream: Upstream) -> None:
    with closing(client), suppress(OSError):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (byte := client.recv(1)):
                return
            head += byte
        if not head.startswith(f"CONNECT {HOST}:443 ".encode()):
            client.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            return
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        host, port = upstream.host.rsplit(":", 1)
        with (
            tls.wrap_socket(client, server_side=True) as inside,
            socket.create_connection((host, int(port))) as outside,
        ):
            back = threading.Thread(target=_copy, args=(outside, inside), daemon=True)
            back.start()
            _copy(inside, outside)
            back.join(PATIENCE_S)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
