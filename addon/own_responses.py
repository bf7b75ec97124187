"""Responses that the proxy itself makes."""

from mitmproxy import http
from mitmproxy.net.http import http1

from addon import errors
from addon.core import messages
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


def write_last(refusal: Refusal) -> bytes:
    """Return the bytes of a refusal that ends its connection."""
    return assemble(to_response(refusal))


def make_protocol_error(status: int, message: str) -> bytes:
    """Return a response in JSON to a request that cannot be read or finished, which quotes nothing of it."""
    return write_last(errors.protocol_error(status, messages.explain_request(status, message)))
