"""Responses that the proxy itself makes."""

from mitmproxy import http
from mitmproxy.net.http import http1

from addon.errors import Refusal


def to_response(refusal: Refusal) -> http.Response:
    """Return a response for mitmproxy to send, which adds the content-length."""
    return http.Response.make(refusal.status, refusal.body(), http.Headers(refusal.header_fields()))


def make_json_response(status: int, body: bytes) -> http.Response:
    """Return a response in JSON that no cache keeps."""
    fields = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
    return http.Response.make(status, body, http.Headers(fields))


def assemble(response: http.Response) -> bytes:
    """Return the bytes of a response that ends its connection."""
    response.headers["connection"] = "close"
    raw: bytes = http1.assemble_response(response)
    return raw
