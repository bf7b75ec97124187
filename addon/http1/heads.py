"""Heads of HTTP/1 messages: conversion from bytes to mitmproxy's messages, and back.

Heads that others may read in another way are refused. Targets that are no path are parsed by
mitmproxy."""

import re
import time

from h11._receivebuffer import ReceiveBuffer
from mitmproxy import http
from mitmproxy.net.http import http1, validate

from addon.core import head_bounds, response_heads
from addon.headers import Fields, index_of
from addon.http1.framing import TO_END

MAX_INTERIM_BYTES = 64 * 1024

_EMPTY_LINES = re.compile(rb"(?:\r?\n)+")
# mitmproxy also takes other blanks and versions, and makes a method upper case for us, not for upstreams.
_FIRST_LINE = re.compile(rb"([A-Z][A-Z-]*) ([!-~\x80-\xff]+) (HTTP/1\.[0-9])\n")
_STATUS_LINE = re.compile(response_heads.STATUS_LINE.pattern + rb"\n")
# In a text without control characters: all that is left of it without these bytes.
_FIELD = re.compile(
    rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]++):[ \t]*+((?:[^\n]*[^ \t\n])?)[ \t]*\n", re.MULTILINE
)
_PLAIN_BYTES = bytes([byte for byte in range(256) if byte in (9, 10) or 32 <= byte != 127])
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9][0-9][ \r\n]")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
_NO_BODY = frozenset((204, 304))


class BadLineError(ValueError):
    """A line of a head is invalid or ambiguous. The message says what the head has."""


def skip_empty_lines(buffer: ReceiveBuffer) -> None:
    """Drop the empty lines that a client may send before a request."""
    empty = _EMPTY_LINES.match(buffer._data)
    if empty is not None:
        buffer.maybe_extract_at_most(empty.end())


def take_head(buffer: ReceiveBuffer) -> bytes | None:
    """Remove the complete head at the beginning of a buffer and return it, or None if it is incomplete."""
    end = head_bounds.find_end(buffer._data)
    return None if end < 0 else bytes(buffer.maybe_extract_at_most(end) or b"")


def take_interim(buffer: ReceiveBuffer) -> bytes | None:
    """Remove the head of an interim (1xx) response and return it.

    Return None if there is none, or if it is incomplete or exceeds the limits."""
    if not _INTERIM.match(buffer._data) or head_bounds.find_excess(buffer._data) is not None:
        return None
    return take_head(buffer)


def parse_request(head: bytes) -> http.Request:
    """Return the request for a complete head. Raises ValueError."""
    text = head.replace(b"\r\n", b"\n")
    if text.translate(None, _PLAIN_BYTES):
        raise BadLineError("control characters in its head")
    first = _FIRST_LINE.match(text)
    if first is None:
        raise ValueError("Bad HTTP request line")
    fields = _read_fields(text, first.end())
    if fields is None:
        raise BadLineError("a header line that is folded, or whose name is not one")
    method, target, version = first.groups()
    if not target.startswith(b"/") and target != b"*":
        request: http.Request = http1.read_request_head(_split(text))
        return request
    made, now_s = _make_headers(fields), time.time()
    return http.Request("", 0, method, b"", b"", target, version, made, None, None, now_s, None)


def parse_response(head: bytes) -> http.Response:
    """Return the response for a complete head. Raises ValueError."""
    text = head.replace(b"\r\n", b"\n")
    first = None if text.translate(None, _PLAIN_BYTES) else _STATUS_LINE.match(text)
    fields = None if first is None else _read_fields(text, first.end())
    if first is None or fields is None or first[2] == b"101":
        raise ValueError(response_heads.find_fault(_split(text)))
    version, status, reason = first[1], int(first[2]), (first[3] or b"").lstrip()
    made, now_s = _make_headers(fields), time.time()
    return http.Response(version, status, reason, made, None, None, now_s, None)


def _split(text: bytes) -> list[bytes]:
    return text.rstrip(b"\n").split(b"\n")


def _read_fields(text: bytes, start: int) -> Fields | None:
    """Return the header fields from ``start`` on, None if a line is not a field."""
    fields = tuple(_FIELD.findall(text, start))
    return fields if len(fields) == text.count(b"\n", start) - 1 else None  # and an empty line


def _make_headers(fields: Fields) -> http.Headers:
    made = http.Headers.__new__(http.Headers)  # its constructor copies and checks each field
    made.fields = fields
    return made


def find_body_size(request: http.Request, response: http.Response | None = None) -> int | None:
    """Return the size of a message's body in bytes: None if it is chunked, ``TO_END`` if unknown.

    Raises ValueError for ambiguous framing."""
    message = request if response is None else response
    found = index_of(message.headers)
    length = found.get(b"content-length")
    is_usual = length is None or _LENGTH.fullmatch(length)
    if b"transfer-encoding" in found or not is_usual:
        validate.validate_headers(message)
    if response is not None and not has_body(request, response):
        return 0
    if b"transfer-encoding" in found:
        return http1.expected_http_body_size(request, response)
    if length is not None:
        return validate.parse_content_length(length)
    return 0 if response is None else TO_END


def measure_request(request: http.Request) -> int | None:
    """Return the size of a request's body, as ``find_body_size`` does.

    Raises ValueError, with mitmproxy's message, for a request that mitmproxy would refuse."""
    if request.data.method == b"CONNECT":
        raise ValueError("mitmproxy received an HTTP CONNECT request")
    if request.data.scheme not in (b"http", b"https", b""):
        raise ValueError("Invalid request scheme")
    try:
        return find_body_size(request)
    except ValueError as error:
        raise ValueError(f"Received {error} from client") from error


def has_body(request: http.Request, response: http.Response) -> bool:
    """Return whether a body follows the head of a response, by its status and the request's method.

    Source: RFC 9112, section 6.3."""
    return request.data.method != b"HEAD" and response.data.status_code not in _NO_BODY


class ResponseHeadReader:
    """Reads the head of a response, and skips interim (1xx) responses before it."""

    def __init__(self) -> None:
        self._interim_bytes = 0

    def read(self, buffer: ReceiveBuffer) -> http.Response | None:
        """Return the response if its head is complete in ``buffer``, or None. Raises ValueError."""
        self._skip_interim(buffer)
        if buffer._data.startswith((b"\n", b"\r\n")):
            raise ValueError("it begins with a blank line")
        excess = head_bounds.find_excess(buffer._data)
        if excess is not None:
            raise ValueError(excess)
        head = take_head(buffer)
        return None if head is None else parse_response(head)

    def _skip_interim(self, buffer: ReceiveBuffer) -> None:
        while (head := take_interim(buffer)) is not None:
            self._interim_bytes += len(head)
            if self._interim_bytes > MAX_INTERIM_BYTES:
                most_kb = MAX_INTERIM_BYTES // 1024
                raise ValueError(f"its interim responses are larger than {most_kb} KB")


def write_request(request: http.Request) -> bytes:
    """Return the head of a request, as bytes for an upstream."""
    data = request.data
    if data.authority:
        head: bytes = http1.assemble_request_head(request)
        return head
    return _write(b"%s %s %s" % (data.method, data.path, data.http_version), data.headers)


def write_response(response: http.Response) -> bytes:
    """Return the head of a response, as bytes for a client."""
    data = response.data
    first = b"%s %d %s" % (data.http_version, data.status_code, data.reason)
    return _write(first, data.headers)


def _write(first_line: bytes, headers: http.Headers) -> bytes:
    return b"\r\n".join((first_line, *map(b": ".join, headers.fields), b"", b""))
