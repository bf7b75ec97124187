"""The text of a request for editing: its largest size, and its layout as JSON.

The layout adds line breaks and indentation, and changes no byte of the values. Parsing a body and
writing it again could change its numbers, escapes or keys, and so miss the prompt cache.
"""

import re
from collections.abc import Iterator

MAX_EDITED_BYTES = 900_000  # the front door lets through 1 MB to the web process
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_INDENT = "  "
MAX_DEPTH = 20  # of the indentation, or deep nesting would make megabytes of a kilobyte


def lay_out(text: str) -> str:
    """Return valid JSON with each value on a line of its own; empty objects and arrays stay on one line."""
    return "".join(_write(_TOKEN.findall(text)))


def _write(parts: list[str]) -> Iterator[str]:
    depth = 0
    for n, part in enumerate(parts):
        if part in "{[":
            is_empty = n + 1 < len(parts) and parts[n + 1] in "}]"
            depth += 1
            yield part if is_empty else f"{part}{_break(depth)}"
        elif part in "}]":
            depth -= 1
            is_empty = n > 0 and parts[n - 1] in "{["
            yield part if is_empty else f"{_break(depth)}{part}"
        elif part == ",":
            yield f",{_break(depth)}"
        else:
            yield ": " if part == ":" else part


def _break(depth: int) -> str:
    return f"\n{_INDENT * min(depth, MAX_DEPTH)}"
