"""A request for a query process, and its progress."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.types import Scope, Send

from dashboard.queries.page_request import PageRequest
from dashboard.queries.protocol import HEADER, Headers, forwarded_headers

DEADLINE_S = 4.0  # to the response's head; a query itself is stopped after 3
# To the head of a page of text, of processor time, since nothing becomes plain because the machine is busy.
# The time of a plain page is in proportion to its text, of which there may be 48 MB.
PAGE_CPU_S, PLAIN_PAGE_CPU_S, PAGE_DEADLINE_S = 1.5, 6.0, 30.0
RECHECK_S = 0.25  # whoever was removed since then is sent nothing more
STREAM_SUFFIXES = (".jsonl", ".parquet")
MAX_RESPONSE_BYTES, MAX_STREAM_BYTES = 256 << 20, 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request for a page, by a caller who was just authenticated. ``check`` raises an error if the
    caller may no longer read."""

    scope: Scope
    page: PageRequest
    check: Callable[[], Awaitable[object]]
    body: bytes = b""

    @property
    def is_of_tables(self) -> bool:
        return self.page.is_of_tables

    @property
    def deadline_s(self) -> float:
        """Return the seconds from the start of computing until the head of the response must arrive."""
        return DEADLINE_S if self.is_of_tables else PAGE_DEADLINE_S

    @property
    def cpu_s(self) -> float | None:
        """Return the seconds of processor time until the head must arrive, None without limit."""
        if self.is_of_tables:
            return None
        return PLAIN_PAGE_CPU_S if self.page.is_plain else PAGE_CPU_S

    @property
    def organization_id(self) -> str:
        return self.page.caller.organization_id

    @property
    def is_stream(self) -> bool:
        if not self.is_of_tables:
            return False
        path = self.scope["path"]
        arguments = self.scope["query_string"].decode("latin-1")
        return path.endswith(STREAM_SUFFIXES) or (
            path.endswith(".csv") and "_stream" in parse_qs(arguments)
        )

    @property
    def lock_key(self) -> str:
        """Return the key of the lock to hold. Downloads have their own, so that pages need not wait."""
        return f"{self.account}/stream" if self.is_stream else self.account

    @property
    def account(self) -> str:
        """Return the key under which the lanes count computing time: the organisation, or its pages of
        text.

        Pages of text are counted separately, so that they do not wait for queries."""
        return self.organization_id if self.is_of_tables else f"{self.organization_id}/pages"

    @property
    def headers(self) -> Headers:
        """Return the headers for the query process."""
        return [*forwarded_headers(self.scope["headers"]), (HEADER, self.page.encode())]

    @property
    def max_bytes(self) -> int:
        return MAX_STREAM_BYTES if self.is_stream else MAX_RESPONSE_BYTES


def _do_nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, kw_only=True)
class Request:
    """A query in progress. What is done if its client disconnects depends on the progress
    (``on_disconnect``)."""

    query: Query
    send: Send
    begun_s: float
    cancel: Callable[[], object] = _do_nothing
    release_lock: Callable[[], None] = _do_nothing
    is_disconnected: bool = False
    _disconnect_action: Callable[[], object] = _do_nothing
    _checked_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._checked_s = self.begun_s

    async def recheck(self, now_s: float) -> None:
        """Check again that the caller may read, at most every ``RECHECK_S``. Raises what ``check`` raises."""
        if now_s - self._checked_s > RECHECK_S:
            await self.query.check()
            self._checked_s = now_s

    def disconnect(self) -> None:
        """Record that the client has disconnected, and run the action for that."""
        self.is_disconnected = True
        self._disconnect_action()

    def on_disconnect(self, action: Callable[[], object]) -> None:
        """Replace the action for a disconnect; run it at once if the client has disconnected already."""
        self._disconnect_action = action
        if self.is_disconnected:
            action()

    def ignore_disconnect(self) -> None:
        """Remove the action for a disconnect."""
        self._disconnect_action = _do_nothing
