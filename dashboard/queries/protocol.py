"""The protocol between the web process and a query process.

It is HTTP/1.1 over a Unix socket: the target as it was received, the headers that Datasette may see,
and one header that describes the caller. The web process alone sets it; one from a client is dropped.

A connection carries one request. A process confirms it before it computes (``RUNNING``). What follows
the request (``STOP``) tells that nobody waits for the response any more.
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
RUNNING, STOP = b"HTTP/1.1 102 Processing\r\n\r\n", b"\n"
READING_SIGNAL = signal.SIGUSR1  # tells a process that it is one of these, see query_proxy
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
    """The organisation whose traces are read, and the name of the visitor. ``scheme`` is that of the
    base URL, which links are made of."""

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
        """Return the caller of a request. Raises KeyError, ValueError or TypeError for a request
        that the web process did not make."""
        fields: dict[str, Any] = json.loads(headers[HEADER])
        return cls(**fields)


def forwarded_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return what Datasette may see: no credentials, and nothing that frames a body."""
    return [(name, value) for name, value in headers if name.lower() not in _DROPPED]
