"""The calls in flight of an organisation, read from the spool.

The web process reads the spool itself: a call is there before it is forwarded and until it has ended,
also while the recorder is busy or down. Names of files have the organisation, so files of other
organisations are not opened. Of each call only the request is read, and only once.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from metering.request_facts import NO_FACTS, RequestFacts, parse_facts
from runtime import clock
from store.spool import reader
from store.spool.format import SpooledExchange, SpoolError
from store.spool.reader import InFlightFile, Waiting
from wire.decode import decode_body

FRESH_S = 0.25  # for so long a listing of the spool holds for everybody
MOST = 50  # calls of an organisation that are described


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A call that has not ended. ``is_responding``: upstream has begun to respond."""

    entry_id: str
    created_at: str
    slug: str
    model: str | None
    title: str | None
    session_id: str | None
    is_responding: bool

    @property
    def age_ms(self) -> float:
        return (clock.now() - clock.parse_instant(self.created_at)).total_seconds() * 1000


@dataclass(frozen=True, slots=True)
class Flights:
    """The calls in flight of an organisation: their number, and the newest ones in descending order of
    age."""

    count: int = 0
    calls: tuple[InFlight, ...] = ()

    def of_session(self, session_id: str) -> "Flights":
        found = tuple(call for call in self.calls if call.session_id == session_id)
        return Flights(len(found), found)


@dataclass(frozen=True, slots=True)
class _Known:
    """A call in flight whose request was read."""

    exchange: SpooledExchange
    facts: RequestFacts
    request_size: int

    def describe(self, file: Waiting) -> InFlight:
        """Return the present state of the call. Raises OSError if it has ended."""
        head = self.exchange.head
        return InFlight(
            entry_id=head.entry_id,
            created_at=head.created_at,
            slug=head.slug,
            model=head.request_model or self.facts.model,
            title=self.facts.title_text,
            session_id=head.session_id or self.facts.session_id,
            is_responding=file.path.stat().st_size > self.request_size,
        )


class SpoolWatch:
    """A view of the spool for several organisations. ``clock_s`` is a monotonic clock.

    Calls in flight are in the spool of the proxy (``root``), and those that wait to be stored in that of
    the recorder; both are the same if the whole service is on this machine."""

    def __init__(
        self, root: Path, recorder_root: Path, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._roots = {root, recorder_root}
        self._clock_s = clock_s
        self._lock = asyncio.Lock()
        self._listed_s = float("-inf")
        self._files: dict[str, list[Waiting]] = {}
        self._known: dict[str, _Known] = {}

    async def read(self, organization_id: str) -> Flights:
        """Return the calls in flight of an organisation."""
        async with self._lock:
            return await run_in_threadpool(self._read, organization_id)

    def find(self, organization_id: str, entry_id: str) -> Waiting | None:
        """Return the file of an organisation's call in flight, or None if there is none. It blocks."""
        for file in reader.find_in_flight(self._root):
            if (file.entry_id, file.owner) == (entry_id, organization_id):
                return file
        return None

    def is_waiting(self, organization_id: str, entry_id: str) -> bool:
        """Return whether a call has ended and is not stored yet. It blocks."""
        return any(
            (file.entry_id, file.owner) == (entry_id, organization_id)
            for root in self._roots
            for file in reader.find_waiting(root)
        )

    def describe(self, file: Waiting) -> InFlight | None:
        """Return the present state of a call in flight, or None if its request is not complete.

        It blocks. Raises OSError, SpoolError."""
        known = self._known.get(file.entry_id) or _read_request(file)
        if known is None:
            return None
        self._known[file.entry_id] = known
        return known.describe(file)

    def _read(self, organization_id: str) -> Flights:
        self._list()
        files = self._files.get(organization_id, [])
        newest = sorted(files, key=lambda file: file.entry_id, reverse=True)[:MOST]
        return Flights(len(files), tuple(self._describe(newest)))

    def _list(self) -> None:
        if self._clock_s() - self._listed_s < FRESH_S:
            return
        self._files = {}
        for file in reader.find_in_flight(self._root):
            self._files.setdefault(file.owner, []).append(file)
        there = {file.entry_id for files in self._files.values() for file in files}
        self._known = {name: known for name, known in self._known.items() if name in there}
        self._listed_s = self._clock_s()

    def _describe(self, files: Iterable[Waiting]) -> Iterable[InFlight]:
        for file in files:
            with suppress(OSError, SpoolError):  # it has ended, or will be set aside
                call = self.describe(file)
                if call is not None:
                    yield call


def _read_request(file: Waiting) -> _Known | None:
    """Return the fields of a call's request, without bodies; None if it is not complete.

    Raises OSError, SpoolError."""
    with InFlightFile(file) as opened:
        found = opened.read()
    if found is None:
        return None
    exchange, request_size = found
    body, exchange.request_body, exchange.response_body = exchange.request_body, None, b""
    encoding = exchange.head.content_encoding
    facts = NO_FACTS if body is None else parse_facts(decode_body(body, encoding).text)
    return _Known(exchange, facts, request_size)
