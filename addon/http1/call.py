"""One request with its response, and the progress of both."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from mitmproxy import http

from addon.headers import index_of
from addon.http1 import framing, heads
from addon.http1.framing import LAST_CHUNK, Body, KnownLength
from addon.http1.upstream import Upstream


@dataclass(slots=True, eq=False)
class Call:
    """Holds or streams both bodies of a call, through the ``stream`` functions that addons set."""

    flow: http.HTTPFlow
    request_body: Body
    upstream: Upstream | None = None
    is_streamed: bool = False
    """The request body is streamed, not held."""
    is_sent: bool = False
    """The request, or its head, was written to the upstream."""
    request_is_whole: bool = False
    held_bytes: int = 0
    response_head: heads.ResponseHeadReader = field(default_factory=heads.ResponseHeadReader)
    response_body: Body = field(default_factory=partial(KnownLength, 0))
    response_has_begun: bool = False
    """The head of the response was received."""
    response_is_passed: bool = False
    """The head of the response was written to the client."""
    response_is_whole: bool = False
    _held: list[bytes] = field(default_factory=list)
    _request_in_chunks: bool = False
    _held_response: list[bytes] = field(default_factory=list)
    _response_in_chunks: bool = False

    # -- the request ------------------------------------------------------------------------------

    def hold(self, data: bytes) -> None:
        """Append a part of the request body to the held ones."""
        if data:
            self._held.append(data)
            self.held_bytes += len(data)

    def take_held(self) -> bytes:
        """Return the held part of the request body, and hold it no longer."""
        held = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        return held

    def write_head(self) -> bytes:
        """Return the head of the request, as bytes for the upstream."""
        request = self.flow.request
        self.is_sent = True
        self._request_in_chunks = framing.is_chunked(index_of(request.headers))
        return heads.write_request(request)

    def write_content(self) -> bytes:
        """Return the whole body of a held request, framed for the upstream."""
        content = self.flow.request.data.content or b""
        return _frame_whole(content, in_chunks=self._request_in_chunks)

    def pass_request(self, data: bytes) -> bytes:
        """Return the bytes to send for a part of a streamed request body; ``b""`` as ``data`` is its end."""
        parts = _stream(self.flow.request.stream, data)
        return b"".join(framing.frame(part, in_chunks=self._request_in_chunks) for part in parts)

    def end_request(self) -> bytes:
        """Return the bytes to send after a streamed request body: the last chunk if it is chunked."""
        return LAST_CHUNK if self._request_in_chunks else b""

    # -- the response -----------------------------------------------------------------------------

    @property
    def response(self) -> http.Response:
        """Return the response of the upstream or of an addon. Raises RuntimeError if there is none yet."""
        if self.flow.response is None:
            raise RuntimeError("there is no response yet")
        return self.flow.response

    def begin_response(self, response: http.Response) -> None:
        """Set the response once its head was received. Raises ValueError for ambiguous framing."""
        size = heads.find_body_size(self.flow.request, response)
        self.flow.response = response
        self.response_has_begun = True
        self.response_body = framing.read_body(size)

    def write_response_head(self) -> bytes:
        """Return the head of a streamed response as bytes, ``b""`` for a held one."""
        response = self.response
        self._response_in_chunks = framing.is_chunked(index_of(response.headers))
        if not response.stream or self.response_body.is_whole:
            return b""
        self.response_is_passed = True
        return heads.write_response(response)

    def pass_response(self, data: bytes) -> list[bytes]:
        """Return the bytes to send for a part of the response body; ``b""`` as ``data`` is its end.

        A part of a response that is not streamed is held, and the list is empty."""
        if not self.response_is_passed:
            self._held_response.append(data)
            return []
        in_chunks = self._response_in_chunks
        parts = _stream(self.response.stream, data)
        return [framing.frame(part, in_chunks=in_chunks) for part in parts if part]

    def keep_response(self) -> None:
        """Set the held body as the content of the flow's response, unless the response is streamed."""
        if not self.response_is_passed:
            self.response.data.content = b"".join(self._held_response)
            self._held_response.clear()

    def end_response(self) -> bytes:
        """Return the bytes to send once addons have seen the whole response."""
        if self.response_is_passed:
            return LAST_CHUNK if self._response_in_chunks else b""
        return self.write_whole_response()

    def write_whole_response(self) -> bytes:
        """Return the head and the content of the flow's response as bytes."""
        response, request = self.response, self.flow.request
        self.response_is_passed = True
        head = heads.write_response(response)
        if not heads.has_body(request, response):
            return head
        in_chunks = framing.is_chunked(index_of(response.headers))
        return head + _frame_whole(response.data.content or b"", in_chunks=in_chunks)

    def forget(self) -> None:
        """Release held data, since addons may keep the flow for longer."""
        self._held.clear()
        self._held_response.clear()
        self.flow.live = False

    def is_last(self) -> bool:
        """Return whether the connections of this call serve no other call afterwards."""
        request, response = self.flow.request, self.response
        return (
            isinstance(self.response_body, framing.ToEnd)
            or _says_close(request)
            or _says_close(response)
            or _ends_with_connection(request, response)
        )


def _says_close(message: http.Message) -> bool:
    return framing.says_close(message.data.http_version, index_of(message.headers))


def _ends_with_connection(request: http.Request, response: http.Response) -> bool:
    """Return whether the end of the connection is the only sign of the end of this response."""
    found = index_of(response.headers)
    is_sized = b"content-length" in found or framing.is_chunked(found)
    return not is_sized and heads.has_body(request, response)


def _frame_whole(content: bytes, *, in_chunks: bool) -> bytes:
    return framing.frame(content, in_chunks=True) + LAST_CHUNK if in_chunks else content


def _stream(by: object, data: bytes) -> Iterable[bytes]:
    passed = by(data) if callable(by) else data
    return (passed,) if isinstance(passed, bytes) else passed
