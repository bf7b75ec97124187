"""The patches of mitmproxy that a forward proxy needs, and the replacements of its functions.

A forward proxy uses mitmproxy's own HTTP layer, and has one client. The service has its own layer
(``http1``), and other patches (``mitmproxy_patches``)."""

from collections.abc import Callable
from typing import Any, NoReturn

from h11 import Data, EndOfMessage, RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.http import _http1

from addon import mitmproxy_patches, own_responses
from addon.http1 import heads
from addon.http1.chunked import InChunks
from runtime import patches
from runtime.patches import Patch

type HeadersReader = Callable[
    [_http1.Http1Client, events.ConnectionEvent], layer.CommandGenerator[None]
]


def skip_interim_responses(original: HeadersReader, _given: object) -> HeadersReader:
    """Return an ``Http1Client.read_headers`` that drops interim (1xx) responses."""

    def read_headers(
        self: _http1.Http1Client, event: events.ConnectionEvent
    ) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and self.request:
            while heads.take_interim(self.buf) is not None:
                pass
        return original(self, event)

    return read_headers


class ChunkedReader:
    """Reads a chunked body, with the interface of the readers of h11 that mitmproxy calls."""

    def __init__(self) -> None:
        self._body = InChunks()

    def __call__(self, buffer: ReceiveBuffer) -> Data | EndOfMessage | None:
        """Return a part of the body or its end, None if more data is needed. Raises RemoteProtocolError."""
        body = self._body
        data = body.feed(bytes(buffer.maybe_extract_at_most(len(buffer)) or b""))
        if body.is_whole:
            buffer += body.take_surplus()
        if data:  # a fault is told once it is on its way
            return Data(data=data)
        if body.fault is not None:
            raise RemoteProtocolError(body.fault)
        return EndOfMessage() if body.is_whole else None

    def read_eof(self) -> NoReturn:
        """Raise RemoteProtocolError, since the connection ended before the body."""
        raise RemoteProtocolError("the peer closed the connection within a chunked body")


type BodyReaderMaker = Callable[[int | None], Any]


def read_chunks_together(original: BodyReaderMaker, _given: object) -> BodyReaderMaker:
    """Return a ``make_body_reader`` that joins all chunks of a read, and drops trailers.

    It is used for request bodies, too."""

    def make_body_reader(expected_size: int | None) -> Any:
        return ChunkedReader() if expected_size is None else original(expected_size)

    return make_body_reader


type ErrorResponseMaker = Callable[[int, str], bytes]


def respond_in_json(_original: ErrorResponseMaker, _given: object) -> ErrorResponseMaker:
    """Return a ``make_error_response`` that responds in JSON and quotes nothing of the request."""
    return own_responses.make_protocol_error


RESPONSES: tuple[Patch[object], ...] = (
    Patch(
        owner=_http1.Http1Client,
        name="read_headers",
        reason="An interim (1xx) response shifts every later response on its connection by one request.",
        contract_test="forward/test_patches.py::"
        "test_mitmproxy_still_takes_an_interim_response_for_the_response",
        digest="deee23a79fe992b4",
        replace=skip_interim_responses,
    ),
    Patch(
        owner=_http1,
        name="make_body_reader",
        reason="Each chunk is an event of its own, and trailers crash the flow.",
        contract_test="forward/test_patches.py::test_mitmproxy_still_makes_a_piece_of_every_chunk",
        digest="9b076acda459637b",
        replace=read_chunks_together,
    ),
    Patch(
        owner=_http1,
        name="make_error_response",
        reason="mitmproxy refuses requests with a page of HTML that quotes them.",
        contract_test="forward/test_patches.py::test_mitmproxy_still_responds_to_faults_with_a_page",
        digest="03ce75ab62e8e78b",
        replace=respond_in_json,
    ),
)


def patch_responses() -> None:
    """Apply the patches. Raises MitmproxyChangedError, and then applies none."""
    mitmproxy_patches.check(RESPONSES)
    patches.apply(RESPONSES, None)
