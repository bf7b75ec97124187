"""Heads of HTTP/1 messages: from bytes to mitmproxy's messages, by its parser, and back.

What is read otherwise by others, or not at all, is refused here before mitmproxy sees it.
"""

import re

from h11._receivebuffer import ReceiveBuffer
from mitmproxy import http
from mitmproxy.net.http import http1, validate

from addon.core import head_bounds, response_heads
from addon.http1.framing import TO_END, Index

MAX_INTERIM_BYTES = 64 * 1024
BAD_HEAD = "control characters in its head"

_END = re.compile(rb"\n\r?\n")
_EMPTY_LINES = re.compile(rb"(?:\r?\n)+")
# What mitmproxy takes for blanks, and strips, so that a later check would not see it.
_OTHER_BLANKS = re.compile(rb"[\x0b\x0c\r]")
# mitmproxy also takes other blanks and versions, and makes a method upper case for us, not for upstreams.
_FIRST_LINE = re.compile(rb"[A-Z][A-Z-]* [!-~\x80-\xff]+ HTTP/1\.[0-9]")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9][0-9][ \r\n]")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
_NAME_BYTES = b"!#$%&'*+.^_`|~-0123456789abcdefghijklmnopqrstuvwxyz"
_NO_BODY = frozenset((204, 304))


def skip_empty_lines(buffer: ReceiveBuffer) -> None:
    """Drop the empty lines that a client may send before a request."""
    empty = _EMPTY_LINES.match(buffer._data)
    if empty is not None:
        buffer.maybe_extract_at_most(empty.end())


def take_head(buffer: ReceiveBuffer) -> bytes | None:
    """Remove a whole head from the beginning of a buffer and return it, or None where it is not whole."""
    end = _END.search(buffer._data)
    return None if end is None else bytes(buffer.maybe_extract_at_most(end.end()) or b"")


def take_interim(buffer: ReceiveBuffer) -> bytes | None:
    """Remove the head of an interim response and return it.

    Return None where there is none, or where it is not whole or not within bounds."""
    if not _INTERIM.match(buffer._data) or head_bounds.find_excess(buffer._data) is not None:
        return None
    return take_head(buffer)


def parse_request(head: bytes) -> http.Request:
    """Return the request of a whole head. Raises ValueError."""
    lines = _split(head)
    if _OTHER_BLANKS.search(b"".join(lines)):
        raise ValueError(BAD_HEAD)
    if not lines or _FIRST_LINE.fullmatch(lines[0]) is None:
        raise ValueError("Bad HTTP request line")
    return http1.read_request_head(lines)


def parse_response(head: bytes) -> http.Response:
    """Return the response of a whole head. Raises ValueError."""
    lines = _split(head)
    fault = response_heads.find_fault(lines)
    if fault is not None:
        raise ValueError(fault)
    return http1.read_response_head(lines)


def _split(head: bytes) -> list[bytes]:
    lines = head.replace(b"\r\n", b"\n").split(b"\n")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def find_body_size(
    request: http.Request, response: http.Response | None, found: Index
) -> int | None:
    """Return the size of a message's body: None in chunks, or ``TO_END``. ``found`` indexes its fields.

    Raises ValueError for framing that others may understand otherwise."""
    message = request if response is None else response
    length = found.get(b"content-length")
    is_usual = length is None or _LENGTH.fullmatch(length)
    if b"transfer-encoding" in found or not is_usual or not _are_names(found):
        validate.validate_headers(message)
    if response is not None and not has_body(request, response):
        return 0
    if b"transfer-encoding" in found:
        return http1.expected_http_body_size(request, response)
    if length is not None:
        return validate.parse_content_length(length)
    return 0 if response is None else TO_END


def has_body(request: http.Request, response: http.Response) -> bool:
    """Return whether a body follows the head of a response, whatever its fields say.

    Source: RFC 9112, section 6.3."""
    return request.data.method != b"HEAD" and response.data.status_code not in _NO_BODY


def _are_names(names: Index) -> bool:
    return b"" not in names and not b"".join(names).translate(None, _NAME_BYTES)


class ResponseHeadReader:
    """Reads the head of a response, behind any interim ones."""

    def __init__(self) -> None:
        self._interim_bytes = 0

    def read(self, buffer: ReceiveBuffer) -> http.Response | None:
        """Return the response whose head is whole in a buffer, or None. Raises ValueError."""
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
    """Return the head of a request as it is written to an upstream."""
    data = request.data
    if data.authority:
        head: bytes = http1.assemble_request_head(request)
        return head
    return _write(b"%s %s %s" % (data.method, data.path, data.http_version), data.headers)


def write_response(response: http.Response) -> bytes:
    """Return the head of a response as it is written to a client."""
    data = response.data
    first = b"%s %d %s" % (data.http_version, data.status_code, data.reason)
    return _write(first, data.headers)


def _write(first_line: bytes, headers: http.Headers) -> bytes:
    return b"\r\n".join((first_line, *map(b": ".join, headers.fields), b"", b""))
