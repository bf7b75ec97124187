"""Limits on the heads of messages, checked before mitmproxy parses them.

Parsing, filtering and checking take time for every header line, which all connections of the event
loop share. What clients and upstreams send is far below: some 30 lines, and cookies of a few KB."""

import re

MAX_HEADER_LINES = 200
MAX_HEAD_BYTES = 64_000
MAX_PATH_BYTES = 16 * 1024  # queries may be longer: SQL for the trace browser is in them

_PATH_END = re.compile(rb"[?\n]")


def find_end(received: bytes | bytearray) -> int:
    """Return the offset behind the empty line that ends the head, or -1 if the head is incomplete."""
    end = received.find(b"\n\r\n")
    bare = received.find(b"\n\n", 0, None if end < 0 else end + 1)
    return bare + 2 if bare >= 0 else end + 3 if end >= 0 else -1


def find_excess(received: bytearray, largest_bytes: int = MAX_HEAD_BYTES) -> str | None:
    """Return a description of the limit that a head exceeds, or None.

    ``received`` begins with the head, which may be incomplete, or followed by a body."""
    if len(received) > MAX_PATH_BYTES and _PATH_END.search(received, 0, MAX_PATH_BYTES) is None:
        return f"its path is longer than {MAX_PATH_BYTES // 1024} KB"
    end = find_end(received)
    is_whole = 0 < end <= largest_bytes
    if not is_whole and len(received) > largest_bytes:
        return f"its head is larger than {largest_bytes // 1000} KB"
    lines = received.count(b"\n", 0, end) - 1 if is_whole else received.count(b"\n")
    if lines > 1 + MAX_HEADER_LINES:
        return f"it has more than {MAX_HEADER_LINES} header lines"
    return None
