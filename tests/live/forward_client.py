"""A client of raw bytes, which takes the forward proxy and the authorities for TLS of its environment.

Tests use it in their own process, and in one that `taximeter run` starts."""

import base64
import os
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

PATIENCE_S = 120


def connect(host: str, environ: Mapping[str, str] = os.environ) -> ssl.SSLSocket:
    """Return a connection to a host."""
    connection = open_tunnel(host, environ)
    trust = ssl.create_default_context(cafile=environ.get("SSL_CERT_FILE"))
    return trust.wrap_socket(connection, server_hostname=host)


def open_tunnel(host: str, environ: Mapping[str, str]) -> socket.socket:
    """Return a connection to the forward proxy that has accepted to CONNECT to a host."""
    proxy = find_proxy(environ)
    connection = socket.create_connection((proxy.hostname, proxy.port), PATIENCE_S)
    credential = encode(f"{proxy.username}:{proxy.password}")
    head = f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nProxy-Authorization: Basic {credential}"
    connection.sendall(f"{head}\r\n\r\n".encode())
    assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
    return connection


def find_proxy(environ: Mapping[str, str]) -> SplitResult:
    """Return the address of the forward proxy."""
    return urlsplit(environ["https_proxy"])


def encode(credential: str) -> str:
    """Return a name and a password as Proxy-Authorization has them."""
    return base64.b64encode(credential.encode()).decode()


def exchange(connection: socket.socket, head: str, body: bytes = b"") -> tuple[str, str]:
    """Send a request; return the head and the body of the response, which states its length."""
    connection.sendall(head.encode() + body)
    response = read_until(connection, b"\r\n\r\n")
    lines = response.lower().split(b"\r\n")
    (length,) = (line.partition(b":")[2] for line in lines if line.startswith(b"content-length:"))
    received = b""
    while len(received) < int(length):
        received += _receive(connection)
    return response.decode(), received.decode()


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """Return what comes up to these bytes and with them, and leave what comes after them."""
    received = b""
    while not received.endswith(end):
        received += _receive(connection, 1)
    return received


def find_issuer(connection: ssl.SSLSocket) -> str | None:
    """Return the name of the authority that has issued the certificate of the other side."""
    certificate: Any = connection.getpeercert()
    names: dict[str, str] = dict(pair for (pair,) in certificate["issuer"])
    return names.get("commonName")


def _receive(connection: socket.socket, most: int = 1 << 16) -> bytes:
    received = connection.recv(most)
    assert received, "closed by the peer"
    return received
