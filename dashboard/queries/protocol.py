"""What the web process tells a query process of a request, in one header of it.

Everything else is plain HTTP/1.1 over a Unix socket: the target as it came, and the headers that
Datasette may see. The header is set by the web process alone; one that a client sent is dropped.

One request comes on a connection. A process that has read it says so before it computes (``RUNNING``).
What follows a request (``LEAVE_OFF``) says that nobody waits for the response any more.
"""

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

HEADER = b"x-taximeter-query"
MAX_OPEN = 16  # organisations whose databases one process keeps open
SOCKET_SUFFIX = ".sock"  # a query process listens on <its pid>.sock
MAX_READING = 4  # processes that only send on what was computed, beside those that are ready
RUNNING, LEAVE_OFF = b"HTTP/1.1 102 Processing\r\n\r\n", b"\n"
READING_SIGNAL = signal.SIGUSR1  # tells a process that it is one of these, see relay
_DROPPED = {
    HEADER,
    b"authorization",
    b"connection",
    b"content-length",
    b"cookie",
    b"expect",
    b"transfer-encoding",
    b"upgrade",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose traces are asked for, and what a page shows of who is signed in. ``scheme`` is that of the
    address people use, which links are made from."""

    organization_id: str
    user_id: str
    display: str
    organization: str
    scheme: str
    is_for_program: bool

    def encode(self) -> bytes:
        """Return the header's value; it is ASCII whatever the names are."""
        return json.dumps(asdict(self)).encode("ascii")

    @classmethod
    def decode(cls, headers: Mapping[bytes, bytes]) -> Self:
        """Raises KeyError, ValueError or TypeError for a request that the web process did not make."""
        fields: dict[str, Any] = json.loads(headers[HEADER])
        return cls(**fields)


def forwarded_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return what Datasette may see: no credentials, and nothing that frames a body."""
    return [(name, value) for name, value in headers if name.lower() not in _DROPPED]
