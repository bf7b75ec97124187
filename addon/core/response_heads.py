"""The check that a response head is valid HTTP, before it is used.

mitmproxy's parser is lenient: it passes on NUL and bare CR, keeps folded lines with their line break, and
accepts ``HTTP/1.1 20 X`` as a status. How a client would read these is unknown, so a head that is not
valid is treated as no response at all (RFC 9112, sections 4 and 5)."""

import re
from collections.abc import Sequence

from addon import headers
from addon.core.messages import name_fault

STATUS_LINE = re.compile(rb"(HTTP/1\.[01]) ([1-5][0-9]{2})(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?")
_FIELD = re.compile(headers.FIELD)

# How mitmproxy begins its messages about a response head that it does not take.
CORES_PREFIX = "Cannot parse HTTP response: "
# mitmproxy's own messages begin otherwise.
_OURS = re.compile(r"(?:it|its|a header (?:name|value|line)) ")
_CORES_REFUSAL = re.compile(r"Received (.*) from server, refusing")


def find_reason(core_message: str) -> str | None:
    """Return the reason in mitmproxy's message if it says that a response head was refused, or None."""
    if core_message.startswith(CORES_PREFIX):
        reason = core_message.removeprefix(CORES_PREFIX)
    elif refusal := _CORES_REFUSAL.match(core_message):
        reason = refusal[1]
    else:
        return None
    return reason if _OURS.match(reason) else f"there is a fault in {name_fault(reason)}"


def find_fault(lines: Sequence[bytes]) -> str | None:
    """Return what makes the head of a final response invalid, or None. ``lines`` are without line ends."""
    status_line = STATUS_LINE.fullmatch(lines[0]) if lines else None
    if status_line is None:
        return "its status line is not valid"
    if status_line[2] == b"101":
        return "it switches protocols, which was not requested"
    for line in lines[1:]:
        if line.startswith((b" ", b"\t")):
            return "it has a folded header line"
        name, colon, _value = line.partition(b":")
        if not colon or not _FIELD.fullmatch(name + b":"):
            return "a header name has characters that no name has"
        if not _FIELD.fullmatch(line):
            return "a header value has control characters"
    return None
