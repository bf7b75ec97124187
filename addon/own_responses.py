"""Responses that the proxy itself makes."""

from mitmproxy import http
from mitmproxy.net.http import http1

from addon import errors
from addon.core import messages
from addon.errors import Refusal


def to_response(refusal: Refusal) -> http.Response:
    """Return a refusal as a response of mitmproxy, which adds the content-length."""
    return http.Response.make(refusal.status, refusal.body(), http.Headers(refusal.header_fields()))


def make_json_response(status: int, body: bytes) -> http.Response:
    """Return a JSON response that no cache stores."""
    fields = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
    return http.Response.make(status, body, http.Headers(fields))


def assemble(response: http.Response) -> bytes:
    """Return a response as bytes, with ``connection: close`` added."""
    response.headers["connection"] = "close"
    raw: bytes = http1.assemble_response(response)
    return raw


def write_last(refusal: Refusal) -> bytes:
    """Return a refusal as the bytes of the last response on its connection."""
    return assemble(to_response(refusal))


def make_protocol_error(status: int, message: str) -> bytes:
    """Return the bytes of a JSON error for a request that cannot be read or finished.

    It quotes nothing of the request."""
    return write_last(errors.protocol_error(status, messages.explain_request(status, message)))
