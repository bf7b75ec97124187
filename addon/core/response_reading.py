"""Replacements for the functions of the HTTP/1 core that read responses from an upstream.

* Interim (1xx) responses are dropped; mitmproxy would take one for the response, and every later
  response on the connection would be that of the request before.
* The head of a response is bounded (``head_bounds.py``), and so are the interim responses before it:
  mitmproxy would hold them without end, and take any number of header lines.
* A head that is not valid HTTP is a protocol error (``response_heads.py``).
"""

import re
from collections.abc import Callable
from typing import Any

from mitmproxy import http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode

from addon.core import head_bounds, response_heads
from addon.core.chunked import ChunkedReader

MAX_INTERIM_BYTES = 64 * 1024

_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9][0-9][ \r\n]")
INTERIM_PREFIX = len("HTTP/1.1 100 ")

type HeadersReader = Callable[
    [_http1.Http1Client, events.ConnectionEvent], layer.CommandGenerator[None]
]


def skip_interim_responses(original: HeadersReader, _given: object) -> HeadersReader:
    """Return a replacement for ``Http1Client.read_headers``: it drops interim responses and bounds heads."""

    def read_headers(
        self: _http1.Http1Client, event: events.ConnectionEvent
    ) -> layer.CommandGenerator[None]:
        fault = None
        if isinstance(event, events.DataReceived) and self.request:
            if _skip_interim(self) > MAX_INTERIM_BYTES:
                fault = f"its interim responses are larger than {MAX_INTERIM_BYTES // 1024} KB"
            elif self.buf._data.startswith((b"\n", b"\r\n")):
                fault = "it begins with a blank line"  # mitmproxy would wait for more
            else:
                fault = head_bounds.find_excess(self.buf._data)
        if fault is None:
            yield from original(self, event)
        elif self.stream_id is not None:
            yield commands.CloseConnection(self.conn)
            yield ReceiveHttp(
                self.ReceiveProtocolError(
                    self.stream_id,
                    response_heads.CORES_PREFIX + fault,
                    ErrorCode.GENERIC_SERVER_ERROR,
                )
            )
            self.state = self.done

    return read_headers


def _skip_interim(self: _http1.Http1Client) -> int:
    """Drop the interim responses that are whole; return how many bytes of them this stream has had."""
    stream_id, skipped = getattr(self, "interim", (None, 0))
    if stream_id != self.stream_id:
        skipped = 0
    while (
        _INTERIM.match(bytes(self.buf._data[:INTERIM_PREFIX]))
        and skipped <= MAX_INTERIM_BYTES
        and head_bounds.find_excess(self.buf._data) is None
    ):
        before = len(self.buf)
        if self.buf.maybe_extract_lines() is None:
            break  # the rest of its head is still to come
        skipped += before - len(self.buf)
    self.interim = self.stream_id, skipped  # type: ignore[attr-defined]
    return skipped


type HeadReader = Callable[[list[bytes]], http.Response]


def refuse_invalid_heads(original: HeadReader, _given: object) -> HeadReader:
    """Return an ``http1.read_response_head`` that refuses heads that are not valid HTTP."""

    def read_response_head(lines: list[bytes]) -> http.Response:
        """Return the response, or raise ValueError, which mitmproxy makes a protocol error of."""
        fault = response_heads.find_fault(lines)
        if fault is not None:
            raise ValueError(fault)
        return original(lines)

    return read_response_head


type BodyReaderMaker = Callable[[int | None], Any]


def read_chunks_together(original: BodyReaderMaker, _given: object) -> BodyReaderMaker:
    """Return a ``make_body_reader`` that makes one piece of the chunks of a read. It is also used
    for request bodies."""

    def make_body_reader(expected_size: int | None) -> Any:
        return ChunkedReader() if expected_size is None else original(expected_size)

    return make_body_reader
