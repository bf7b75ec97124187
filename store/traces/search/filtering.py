"""The calls that a search is limited to, and the texts that they sent again.

A text has its first call beside it, and there is no list of the calls that sent it again, in another session
or on another day. Where filters leave out the first call, the newest calls that they leave are looked
through, up to ``MAX_CALLS``, and the first of those that have the text stands for it.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import orjson

from store.traces.search.request_walker import read_lists
from store.traces.search.walk import Role
from store.traces.sessions import unnamed_sessions

MAX_CALLS = 2_000
_AT_ONCE = 200
# What a search reads of a call, over ``usage as u``.
CALL = f"u.id, u.entry_id, u.created_at, u.slug, u.model, {unnamed_sessions.SESSION}"
_NEWEST = (
    f"select {CALL}, q.segment_ids from usage as u"  # noqa: S608 - our own text
    " join request_bodies as q on q.usage_id = u.id and q.segment_ids is not null"
    " where {} order by u.created_at desc, u.id desc limit :limit"
)
_BETWEEN = "u.created_at >= :since and u.created_at < :until"
_OF_SESSION = f"u.id in ({unnamed_sessions.CALLS}) and {_BETWEEN}"


class FoundCall(NamedTuple):
    """A call that has a text. ``session_id`` is its session, named or not, None where it is in none."""

    usage_id: int
    entry_id: str
    created_at: str
    slug: str
    model: str | None
    session_id: str | None


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

    def admits(self, call: FoundCall) -> bool:
        """Return whether a call is one of those to search."""
        return (
            (self.since is None or call.created_at >= self.since)
            and (self.until is None or call.created_at < self.until)
            and self.slug in (None, call.slug)
            and self.session_id in (None, call.session_id)
            and (
                self.model is None or fnmatchcase(call.model or "", self.model.replace("[", "[[]"))
            )
        )


class CallsWithin:
    """The calls that a filter leaves, by the texts in their requests. They are read when first asked for."""

    def __init__(self, db: sqlite3.Connection, only: Filter, is_over: Callable[[], bool]) -> None:
        """Take what to read from. ``is_over`` ends the reading: older calls are then left out."""
        self._db = db
        self._only = only
        self._is_over = is_over
        self._by_source: dict[int, FoundCall] | None = None

    def find(self, source: int) -> FoundCall | None:
        """Return the first call that has a text: that of a piece, or below zero of a response of that call.

        Raises sqlite3.Error."""
        if self._by_source is None:
            self._by_source = self._read()
        return self._by_source.get(source)

    def _read(self) -> dict[int, FoundCall]:
        by_piece: dict[int, FoundCall] = {}
        pieces: dict[int, list[int]] = {}  # of segments, which calls share
        for some in self._iter_newest():
            missing = {each for _, ids in some for each in ids} - pieces.keys()
            pieces |= read_lists(self._db, list(missing))
            for call, segment_ids in some:  # newest first: an older one takes the place of a newer
                by_piece |= {
                    piece_id: call for each in segment_ids for piece_id in pieces.get(each, ())
                }
            if self._is_over():
                break
        rows = self._db.execute(
            "select piece_id, coalesce(copy_of, piece_id) from search_pieces"
            " where piece_id in (select value from json_each(?))",
            (orjson.dumps(list(by_piece)).decode(),),
        )
        found: dict[int, FoundCall] = {}
        for piece_id, source in rows:
            call = by_piece[piece_id]
            known = found.get(source)
            found[source] = call if known is None or call.usage_id < known.usage_id else known
        return found

    def _iter_newest(self) -> Iterator[list[tuple[FoundCall, list[int]]]]:
        """Yield the newest calls that the filter leaves with the ids of their segments, some at a time."""
        only = self._only
        values: dict[str, str | int | None] = {
            "since": only.since or "",
            "until": only.until or "~",
            "limit": MAX_CALLS,
        }
        where = _BETWEEN
        if only.session_id is not None:
            where = _OF_SESSION
            values |= unnamed_sessions.bind(only.session_id)
        rows = self._db.execute(_NEWEST.format(where), values)
        while some := rows.fetchmany(_AT_ONCE):
            calls = ((FoundCall._make(row[:-1]), orjson.loads(row[-1])) for row in some)
            yield [each for each in calls if only.admits(each[0])]
