"""Search for texts in the calls of one organisation."""

import heapq
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from store.database import bind_list, open_readonly
from store.traces.search import index
from store.traces.search.filtering import CALL, CallsWithin, Filter, FoundCall
from store.traces.search.later_calls import Wanted, count_later_calls
from store.traces.search.query import Query
from store.traces.search.snippets import Snippet, make_snippet
from store.traces.search.walk import Texts
from store.traces.sums.usage_report import READ_TIMEOUT_S

SEARCH_S = 0.15  # after that a search goes on from where it is on its next page
COUNT_S = 0.1
HARD_LIMIT_S = 3.0  # one look into a full-text table cannot go on later
_CHECK_EVERY_STEPS = 5_000
_HIGHEST = 2**62
_PIECES = (
    f"select t.rowid, {CALL} from search_text(:match) as t"  # noqa: S608 - our own text
    " cross join search_pieces as s on s.piece_id = t.rowid"
    " cross join usage as u on u.id = s.usage_id"
    " where t.rowid < :below order by t.rowid desc"
)
_RESPONSES = (
    f"select -t.rowid, {CALL} from search_response(:match) as t"  # noqa: S608 - our own text
    " cross join usage as u on u.id = t.rowid"
    " where t.rowid < :below order by t.rowid desc"
)
_ENTRY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REQUEST_ID = re.compile(r"req_[A-Za-z0-9]+")


class Place(NamedTuple):
    """A place in the results: the next rows have lower ids of pieces and of responses."""

    piece_id: int = _HIGHEST
    usage_id: int = _HIGHEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A text that was found, with its first call within the filter.

    ``other_calls`` counts later calls with the text, of the session or, for system prompts and tools,
    of all sessions; with ``is_capped`` there may be more. ``session_title`` is None if unknown."""

    call: FoundCall
    session_title: str | None
    snippet: Snippet
    other_calls: int
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of hits, newest first. ``next_place`` is None on the last page.

    ``is_cut``: the search took too long, and older hits are on the next page."""

    hits: list[Hit]
    next_place: Place | None = None
    is_cut: bool = False


class _Row(NamedTuple):
    """A matching text: a piece or, below zero, the response of a call, with its first call."""

    source: int
    call: FoundCall


class SearchReader:
    """A search by a read-only connection. Every method may raise sqlite3.Error."""

    def __init__(
        self, db: sqlite3.Connection, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Read by ``db``, which the caller closes. ``clock_s`` is a monotonic clock in seconds."""
        self._db = db
        self._clock_s = clock_s

    @property
    def is_ready(self) -> bool:
        """Return whether the recorder has created the tables of the index."""
        return index.exists(self._db)

    def find_call(self, text: str) -> int | None:
        """Return the row id of the call with this entry id or upstream request id, or None."""
        if _ENTRY_ID.fullmatch(text):
            sql = "select id from usage where entry_id = ?"
        elif _REQUEST_ID.fullmatch(text):
            sql = "select id from usage where upstream_request_id = ? order by id desc limit 1"
        else:
            return None
        with self._hard_limit():
            row = self._db.execute(sql, (text,)).fetchone()
        return None if row is None else int(row[0])

    def find_session(self, text: str) -> str | None:
        """Return ``text`` if it is the id of a session, otherwise None.

        Texts with spaces or without a digit are not looked up."""
        if len(text.split()) != 1 or not any(map(str.isdigit, text)):
            return None
        row = self._db.execute("select 1 from sessions where session_id = ?", (text,)).fetchone()
        return None if row is None else text

    def search(self, query: Query, only: Filter, limit: int, place: Place) -> Found:
        """Return the newest hits after a place, up to ``limit``."""
        if not query.phrases:
            return Found(hits=[])
        found: list[tuple[_Row, Snippet]] = []
        is_cut = False
        ends_at_s = self._clock_s() + SEARCH_S

        def is_over() -> bool:
            return self._clock_s() >= ends_at_s

        within = CallsWithin(self._db, only, is_over)
        with self._hard_limit():
            rows = self._merge(query.match(only.role), place)
            for number, row in enumerate(rows):
                # One at least: the next page would begin where this one does, and so on.
                is_cut = number > 0 and is_over()
                if len(found) == limit or is_cut:
                    break
                place = _advance(place, row)
                call = row.call if only.admits(row.call) else within.find(row.source)
                if call is not None:
                    texts = self._read_texts(row.source)
                    snippet = make_snippet(texts, query, only.role, is_over)
                    found += [] if snippet is None else [(row._replace(call=call), snippet)]
            else:
                return Found(hits=self._count(found))
        return Found(hits=self._count(found), next_place=place, is_cut=is_cut)

    def _merge(self, match: str, place: Place) -> Iterator[_Row]:
        pieces = self._db.execute(_PIECES, {"match": match, "below": place.piece_id})
        responses = self._db.execute(_RESPONSES, {"match": match, "below": place.usage_id})
        return heapq.merge(
            map(_make_row, pieces), map(_make_row, responses), key=lambda row: -row.call.usage_id
        )

    def _read_texts(self, source: int) -> Texts:
        read = index.read_piece_texts if source > 0 else index.read_response_texts
        return read(self._db, abs(source))

    def _count(self, found: list[tuple[_Row, Snippet]]) -> list[Hit]:
        titles = self._read_titles({row.call.session_id for row, _ in found})
        wanted = [
            Wanted(
                source=row.source,
                usage_id=row.call.usage_id,
                is_everywhere=snippet.role in ("system", "tool"),
            )
            for row, snippet in found
        ]
        counts = count_later_calls(self._db, wanted, self._clock_s, self._clock_s() + COUNT_S)
        return [
            Hit(
                call=row.call,
                session_title=titles.get(row.call.session_id),
                snippet=snippet,
                other_calls=count,
                is_capped=is_capped,
            )
            for (row, snippet), (count, is_capped) in zip(found, counts, strict=True)
        ]

    def _read_titles(self, session_ids: Collection[str | None]) -> dict[str | None, str | None]:
        rows = self._db.execute(
            "select session_id, title from sessions where session_id in (select value from json_each(?))",
            (bind_list(session_ids),),
        )
        return dict(rows.fetchall())

    @contextmanager
    def _hard_limit(self) -> Iterator[None]:
        ends_at_s = self._clock_s() + HARD_LIMIT_S
        self._db.set_progress_handler(lambda: self._clock_s() >= ends_at_s, _CHECK_EVERY_STEPS)
        try:
            yield
        finally:
            self._db.set_progress_handler(None, _CHECK_EVERY_STEPS)


def search_file(path: Path, query: Query, only: Filter, limit: int) -> Found:
    """Return the newest hits in a trace database, none if it does not exist yet.

    Raises sqlite3.Error."""
    if not path.exists():
        return Found(hits=[])
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        reader = SearchReader(db)
        return reader.search(query, only, limit, Place()) if reader.is_ready else Found(hits=[])


def _make_row(row: tuple[Any, ...]) -> _Row:
    return _Row(row[0], FoundCall._make(row[1:]))


def _advance(place: Place, row: _Row) -> Place:
    if row.source > 0:
        return place._replace(piece_id=row.source)
    return place._replace(usage_id=-row.source)
