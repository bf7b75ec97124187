"""One request for Datasette, and how far it has come."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.types import Scope, Send

from dashboard.queries.protocol import Caller

DEADLINE_S = 4.0  # to the response's head; a query itself is stopped after 3
MAX_RESPONSE_BYTES, MAX_STREAM_BYTES = 256 << 20, 1100 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """It is a request for Datasette. ``check`` raises when its caller may no longer read; the response's
    head has to be there within ``deadline_s`` of its turn."""

    scope: Scope
    caller: Caller
    check: Callable[[], Awaitable[object]]
    deadline_s: float = field(default_factory=lambda: DEADLINE_S)

    @property
    def organization_id(self) -> str:
        return self.caller.organization_id

    @property
    def is_stream(self) -> bool:
        arguments = self.scope["query_string"].decode("latin-1")
        return self.scope["path"].endswith(".csv") and "_stream" in parse_qs(arguments)

    @property
    def turn(self) -> str:
        """Downloads take turns among themselves: pages must not wait for them."""
        return f"{self.organization_id}/stream" if self.is_stream else self.organization_id

    @property
    def max_bytes(self) -> int:
        return MAX_STREAM_BYTES if self.is_stream else MAX_RESPONSE_BYTES


def _do_nothing() -> None:
    """Wait for the next step."""


@dataclass(slots=True, kw_only=True)
class Request:
    """It is a query on its way. What is to be done when its client leaves depends on how far it has come."""

    query: Query
    send: Send
    begun_s: float
    cancel: Callable[[], object] = _do_nothing
    end_turn: Callable[[], None] = _do_nothing
    has_left: bool = False
    _on_leave: Callable[[], object] = _do_nothing

    def leave(self) -> None:
        """Note that the client has left."""
        self.has_left = True
        self._on_leave()

    def when_left(self, on_leave: Callable[[], object]) -> None:
        """Have this done instead of what was to be done before, at once if the client has left already."""
        self._on_leave = on_leave
        if self.has_left:
            on_leave()

    def go_on(self) -> None:
        """Have nothing done for now."""
        self._on_leave = _do_nothing
