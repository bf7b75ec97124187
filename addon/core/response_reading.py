"""Replacements for functions of mitmproxy that read and make responses, for a forward proxy.

The service has a layer of its own (``http1``), and needs none of them.
"""

from collections.abc import Callable
from typing import Any

from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.http import _http1

from addon.core.chunked import ChunkedReader
from addon.http1 import heads
from addon.http1.layer import make_error_response

type HeadersReader = Callable[
    [_http1.Http1Client, events.ConnectionEvent], layer.CommandGenerator[None]
]


def skip_interim_responses(original: HeadersReader, _given: object) -> HeadersReader:
    """Return an ``Http1Client.read_headers`` that drops interim responses."""

    def read_headers(
        self: _http1.Http1Client, event: events.ConnectionEvent
    ) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and self.request:
            while heads.take_interim(self.buf) is not None:
                pass
        return original(self, event)

    return read_headers


type BodyReaderMaker = Callable[[int | None], Any]


def read_chunks_together(original: BodyReaderMaker, _given: object) -> BodyReaderMaker:
    """Return a ``make_body_reader`` that makes one piece of the chunks of a read, and drops trailers.

    It is used for request bodies, too."""

    def make_body_reader(expected_size: int | None) -> Any:
        return ChunkedReader() if expected_size is None else original(expected_size)

    return make_body_reader


type ErrorResponseMaker = Callable[[int, str], bytes]


def respond_in_json(_original: ErrorResponseMaker, _given: object) -> ErrorResponseMaker:
    """Return a ``make_error_response`` that responds in JSON and quotes nothing."""
    return make_error_response
