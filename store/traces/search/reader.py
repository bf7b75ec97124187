"""Searching what was said in the calls of one organisation."""

import heapq
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import orjson

from store.database import open_readonly
from store.traces.search import index
from store.traces.search.later_calls import Wanted, count_later_calls
from store.traces.search.query import Query
from store.traces.search.snippets import Snippet, make_snippet
from store.traces.search.walk import Role, Texts
from store.traces.sums.usage_report import READ_TIMEOUT_S

SEARCH_S = 0.15  # after that a search goes on from where it is on its next page
COUNT_S = 0.1
HARD_LIMIT_S = 3.0  # one look into a full-text table cannot go on later
_CHECK_EVERY_STEPS = 5_000
_HIGHEST = 2**62
_CALL = (
    "u.id, u.entry_id, u.created_at, u.slug, u.model,"
    " coalesce(u.session_id, 'unnamed-' || n.first_id)"
)
_PIECES = (
    f"select 'p', t.rowid, {_CALL} from search_text(:match) as t"  # noqa: S608 - our own text
    " cross join search_pieces as s on s.piece_id = t.rowid"
    " cross join usage as u on u.id = s.usage_id"
    " left join unnamed_calls as n on n.usage_id = u.id"
    " where t.rowid < :below order by t.rowid desc"
)
_RESPONSES = (
    f"select 'r', t.rowid, {_CALL} from search_response(:match) as t"  # noqa: S608 - our own text
    " cross join usage as u on u.id = t.rowid"
    " left join unnamed_calls as n on n.usage_id = u.id"
    " where t.rowid < :below order by t.rowid desc"
)
_ENTRY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REQUEST_ID = re.compile(r"req_[A-Za-z0-9]+")


class Place(NamedTuple):
    """A place in the results: below these ids of pieces and of responses."""

    piece_id: int = _HIGHEST
    usage_id: int = _HIGHEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The calls to search: those that arrived at ``since`` or later and before ``until``, at an endpoint,
    with a model that matches a pattern of ``*`` and ``?``, of a session. None excludes nothing."""

    since: str | None = None
    until: str | None = None
    slug: str | None = None
    model: str | None = None
    session_id: str | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A text that was found, with the first call that has it. ``other_calls`` are later ones; if they
    are ``capped`` there may be more. ``session_title`` is what the session is about, where it is known."""

    usage_id: int
    entry_id: str
    created_at: str
    slug: str
    model: str | None
    session_id: str | None
    session_title: str | None
    snippet: Snippet
    other_calls: int = 0
    is_capped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of hits, newest first. ``next_place`` is None where there is nothing more;
    ``is_cut``: the search took too long, and older hits are on the next page."""

    hits: list[Hit]
    next_place: Place | None = None
    is_cut: bool = False


class _Row(NamedTuple):
    kind: str
    rowid: int
    usage_id: int
    entry_id: str
    created_at: str
    slug: str
    model: str | None
    session_id: str | None


class SearchReader:
    """Searches by a read-only connection. Every method may raise sqlite3.Error."""

    def __init__(
        self, db: sqlite3.Connection, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Take a connection that somebody else closes. ``clock_s`` is a monotonic clock."""
        self._db = db
        self._clock_s = clock_s

    @property
    def is_ready(self) -> bool:
        """Return whether the recorder has made the tables that are read here."""
        return index.exists(self._db)

    def find_call(self, text: str) -> int | None:
        """Return the call with this entry id or upstream's request id, or None."""
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
        """Return the text if it is the id of a session: something without spaces that has a digit."""
        if len(text.split()) != 1 or not any(map(str.isdigit, text)):
            return None
        row = self._db.execute("select 1 from sessions where session_id = ?", (text,)).fetchone()
        return None if row is None else text

    def search(self, query: Query, only: Filter, limit: int, place: Place) -> Found:
        """Return the newest hits below a place."""
        if not query.phrases:
            return Found(hits=[])
        found: list[tuple[_Row, Snippet]] = []
        is_cut = False
        ends_at_s = self._clock_s() + SEARCH_S

        def is_over() -> bool:
            return self._clock_s() >= ends_at_s

        with self._hard_limit():
            rows = self._merge(query.match(only.role), place)
            for number, row in enumerate(rows):
                # One at least: the next page would begin where this one does, and so on.
                is_cut = number > 0 and is_over()
                if len(found) == limit or is_cut:
                    break
                place = _advance(place, row)
                if _is_wanted(row, only):
                    texts = self._read_texts(row)
                    snippet = make_snippet(texts, query, only.role, is_over)
                    found += [] if snippet is None else [(row, snippet)]
            else:
                return Found(hits=self._count(found))
        return Found(hits=self._count(found), next_place=place, is_cut=is_cut)

    def _merge(self, match: str, place: Place) -> Iterator[_Row]:
        pieces = self._db.execute(_PIECES, {"match": match, "below": place.piece_id})
        responses = self._db.execute(_RESPONSES, {"match": match, "below": place.usage_id})
        return heapq.merge(
            map(_Row._make, pieces), map(_Row._make, responses), key=lambda row: -row.usage_id
        )

    def _read_texts(self, row: _Row) -> Texts:
        read = index.read_piece_texts if row.kind == "p" else index.read_response_texts
        return read(self._db, row.rowid)

    def _count(self, found: list[tuple[_Row, Snippet]]) -> list[Hit]:
        titles = self._read_titles({row.session_id for row, _ in found})
        hits = [
            Hit(
                usage_id=row.usage_id,
                entry_id=row.entry_id,
                created_at=row.created_at,
                slug=row.slug,
                model=row.model,
                session_id=row.session_id,
                session_title=titles.get(row.session_id),
                snippet=snippet,
            )
            for row, snippet in found
        ]
        wanted = [
            Wanted(
                source=row.rowid if row.kind == "p" else -row.rowid,
                usage_id=row.usage_id,
                is_everywhere=snippet.role in ("system", "tool"),
            )
            for row, snippet in found
        ]
        counts = count_later_calls(self._db, wanted, self._clock_s, self._clock_s() + COUNT_S)
        return [
            replace(hit, other_calls=count, is_capped=is_capped)
            for hit, (count, is_capped) in zip(hits, counts, strict=True)
        ]

    def _read_titles(self, session_ids: Collection[str | None]) -> dict[str | None, str | None]:
        rows = self._db.execute(
            "select session_id, title from sessions where session_id in (select value from json_each(?))",
            (orjson.dumps(list(session_ids)).decode(),),
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
    """Return the newest hits in a trace database, none while nothing has been recorded.

    Raises sqlite3.Error."""
    if not path.exists():
        return Found(hits=[])
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        reader = SearchReader(db)
        return reader.search(query, only, limit, Place()) if reader.is_ready else Found(hits=[])


def _advance(place: Place, row: _Row) -> Place:
    if row.kind == "p":
        return place._replace(piece_id=row.rowid)
    return place._replace(usage_id=row.rowid)


def _is_wanted(row: _Row, only: Filter) -> bool:
    return (
        (only.since is None or row.created_at >= only.since)
        and (only.until is None or row.created_at < only.until)
        and only.slug in (None, row.slug)
        and only.session_id in (None, row.session_id)
        and (only.model is None or fnmatchcase(row.model or "", only.model.replace("[", "[[]")))
    )
