"""The protocol between the web process and a query process.

A connection over a Unix socket carries one request after the other. Each is a frame: its length and then
JSON with the method, the target as it was received, the headers that Datasette may see, and the body. An
additional header has the page and its caller (``page_request``). Only the web process sets it; one from
a client is dropped.

A process confirms each request before it computes (``RUNNING``). Then it sends frames: the status and
the headers, the parts of the body, and an empty frame as the end. If ``STOP`` follows the request (no
length begins like it), the response is not wanted any more, and the connection ends. HTTP/1.1 would do
the same, but reading and writing it takes as long as a small page.
"""

import json
import signal
from collections.abc import Iterable

HEADER = b"x-taximeter-page"
COLUMNS_HEADER = b"x-taximeter-columns"  # of rows that are to become Parquet
MAX_OPEN = 16  # organisations whose databases one process keeps open
SOCKET_SUFFIX = ".sock"  # a query process listens on <its pid>.sock
MAX_READING = 4  # processes that only send on what was computed, beside those that are ready
RUNNING, STOP = b"r", b"s"
LENGTH_BYTES = 4
READING_SIGNAL = signal.SIGUSR1  # tells a process that it is one of these, see query_proxy

type Headers = Iterable[tuple[bytes, bytes]]

_DROPPED = {
    HEADER,
    b"authorization",
    b"connection",
    b"content-length",
    b"cookie",
    b"expect",
    b"transfer-encoding",
    b"upgrade",
}


def make_frame(payload: bytes) -> bytes:
    """Return a payload with its length in front."""
    return len(payload).to_bytes(LENGTH_BYTES) + payload


def encode_request(method: str, target: bytes, headers: Headers, body: bytes = b"") -> bytes:
    texts = method, target.decode("latin-1"), _as_text(headers), body.decode("latin-1")
    return json.dumps(texts).encode()


def decode_request(payload: bytes) -> tuple[str, bytes, list[tuple[bytes, bytes]], bytes]:
    """Return the method, the target, the headers and the body of a request."""
    method, target, headers, body = json.loads(payload)
    return method, target.encode("latin-1"), _as_bytes(headers), body.encode("latin-1")


def encode_head(status: int, headers: Headers) -> bytes:
    return json.dumps([status, _as_text(headers)]).encode()


def decode_head(payload: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the status and the headers of a response."""
    status, headers = json.loads(payload)
    return int(status), _as_bytes(headers)


def _as_text(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _as_bytes(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def forwarded_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers that Datasette may see: without credentials and without those about the body's
    framing."""
    return [(name, value) for name, value in headers if name.lower() not in _DROPPED]
