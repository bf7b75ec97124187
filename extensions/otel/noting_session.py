"""The HTTP session of OpenTelemetry's exporter, which notes why an export failed.

The exporter does not tell that, treats every response below 400 as an acknowledgement, and reads
responses of any size."""

from collections.abc import Container
from http.cookiejar import DefaultCookiePolicy
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from requests import RequestException, Response, Session

MAX_RESPONSE_BYTES = 64 * 1024


class NotingSession(Session):
    """A session that notes the result of sending a batch.

    That is whether a request was sent since ``forget``, the status of the last response, and in
    ``left_out`` the number of spans that it reports as left out."""

    def __init__(self) -> None:
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.forget()

    def forget(self) -> None:
        self._was_used = False
        self._status: int | None = None
        self.left_out = 0

    def is_final(self, may_pass: Container[int]) -> bool:
        """Return whether a retry of a failed export would fail again.

        So it is if no request was sent, as for a batch that cannot be encoded, or the status is not in
        ``may_pass``."""
        if self._status is None:
            return not self._was_used
        return self._status not in may_pass

    def request(self, *args: Any, **kwargs: Any) -> Response:
        """Send a request and return its response, of which only the beginning is read.

        Raises RequestException for a redirect, or a page that is not from a collector."""
        self._was_used, self._status = True, None
        response = super().request(*args, **kwargs | {"stream": True})
        try:
            content = _read(response)
        finally:
            response.close()  # which ends the connection if more would come
        if 300 <= response.status_code < 400:
            raise RequestException("it redirects, which is not followed: name its own address")
        if response.ok and _is_page(response, content):
            raise RequestException("it responds with a page: name the address of a collector")
        self._status = response.status_code
        self.left_out = _count_left_out(content or b"") if response.ok else 0
        return response


def _read(response: Response) -> bytes | None:
    """Return the body of a response, or None if it is too large, or compressed, which was not requested."""
    if response.headers.get("content-encoding", "identity") != "identity":
        return None
    content: bytes = response.raw.read(MAX_RESPONSE_BYTES + 1, decode_content=False)
    return content if len(content) <= MAX_RESPONSE_BYTES else None


def _is_page(response: Response, content: bytes | None) -> bool:
    """Return whether a response is a web page.

    An empty body is none: some small servers send the type of a page with it."""
    is_html = response.headers.get("content-type", "").lower().startswith("text/html")
    return is_html and content != b""


def _count_left_out(content: bytes) -> int:
    try:
        response = ExportTraceServiceResponse.FromString(content)
    except DecodeError:  # as some collectors respond with nothing, or with JSON
        return 0
    return max(0, int(response.partial_success.rejected_spans))
