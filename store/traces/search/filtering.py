"""The calls that a search is limited to, and the texts that they sent again.

A text is stored with its first call; there is no list of the calls that sent it again, in another
session or on another day. If filters exclude the first call, the newest matching calls are read, up
to ``MAX_CALLS``, and the first of those that have the text is shown. A call that continues a
message thread has all texts of the earlier calls in the thread and of their responses, although it
sends neither."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import orjson

from store.database import bind_list
from store.traces.calls import threads
from store.traces.search.request_walker import read_lists
from store.traces.search.walk import Role
from store.traces.sessions import unnamed_sessions

MAX_CALLS = 2_000
_AT_ONCE = 200
# What a search reads of a call, over ``usage as u``.
CALL = f"u.id, u.entry_id, u.created_at, u.slug, u.model, {unnamed_sessions.SESSION}"
_NEWEST = (
    f"select {CALL}, {{}}, q.segment_ids from usage as u"  # noqa: S608 - our own text
    " join request_bodies as q on q.usage_id = u.id and q.segment_ids is not null"
    " where {} order by u.created_at desc, u.id desc limit :limit"
)
_ONE = (
    f"select {CALL}, q.segment_ids from usage as u"  # noqa: S608 - our own text
    " left join request_bodies as q on q.usage_id = u.id where u.id = ?"
)
_BETWEEN = "u.created_at >= :since and u.created_at < :until"
_OF_SESSION = f"u.id in ({unnamed_sessions.CALLS}) and {_BETWEEN}"


class FoundCall(NamedTuple):
    """A call that has a text. ``session_id`` is None if the call is in no session; it may be unnamed."""

    usage_id: int
    entry_id: str
    created_at: str
    slug: str
    model: str | None
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The calls to search. A field that is None excludes nothing.

    Calls arrived at ``since`` or later and before ``until``. ``model`` is a pattern with ``*`` and
    ``?``. ``role`` limits the texts."""

    since: str | None = None
    until: str | None = None
    slug: str | None = None
    model: str | None = None
    session_id: str | None = None
    role: Role | None = None

    def admits(self, call: FoundCall) -> bool:
        """Return whether a call is within the filter."""
        return (
            (self.since is None or call.created_at >= self.since)
            and (self.until is None or call.created_at < self.until)
            and self.slug in (None, call.slug)
            and self.session_id in (None, call.session_id)
            and (
                self.model is None or fnmatchcase(call.model or "", self.model.replace("[", "[[]"))
            )
        )


class _Sent(NamedTuple):
    """The segments of a request that a call has: its own, or that of ``answered_id``, earlier in its
    thread."""

    call: FoundCall
    segment_ids: list[int]
    answered_id: int | None = None


class CallsWithin:
    """The calls within a filter, by the texts in their prompts. They are read at the first look-up."""

    def __init__(self, db: sqlite3.Connection, only: Filter, is_over: Callable[[], bool]) -> None:
        """Read from ``db``. Once ``is_over`` returns True, reading stops, and older calls are left out."""
        self._db = db
        self._only = only
        self._is_over = is_over
        self._by_source: dict[int, FoundCall] | None = None

    def find(self, source: int) -> FoundCall | None:
        """Return the first call within the filter that has a text, or None.

        ``source`` is the id of a piece or, below zero, of the call whose response has the text. Raises
        sqlite3.Error."""
        if self._by_source is None:
            self._by_source = self._read()
        return self._by_source.get(source)

    def _read(self) -> dict[int, FoundCall]:
        by_piece: dict[int, FoundCall] = {}
        found: dict[int, FoundCall] = {}
        pieces: dict[int, list[int]] = {}  # of segments, which calls share
        for some in self._iter_newest():
            missing = {each for sent in some for each in sent.segment_ids} - pieces.keys()
            pieces |= read_lists(self._db, list(missing))
            for sent in some:  # newest first: an older one takes the place of a newer
                by_piece |= {
                    piece_id: sent.call
                    for each in sent.segment_ids
                    for piece_id in pieces.get(each, ())
                }
                if sent.answered_id is not None:
                    found[-sent.answered_id] = sent.call
            if self._is_over():
                break
        rows = self._db.execute(
            "select piece_id, coalesce(copy_of, piece_id) from search_pieces"
            " where piece_id in (select value from json_each(?))",
            (bind_list(by_piece),),
        )
        for piece_id, source in rows:
            call = by_piece[piece_id]
            known = found.get(source)
            found[source] = call if known is None or call.usage_id < known.usage_id else known
        return found

    def _iter_newest(self) -> Iterator[list[_Sent]]:
        """Yield the requests of the newest calls within the filter, some at a time."""
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
        continues = "u.thread = 'continue'" if threads.has_threads(self._db) else "false"
        rows = self._db.execute(_NEWEST.format(continues, where), values)
        while some := rows.fetchmany(_AT_ONCE):
            found: list[_Sent] = []
            for *fields, is_continued, segment_ids in some:
                call = FoundCall._make(fields)
                if only.admits(call):
                    found.append(_Sent(call, orjson.loads(segment_ids)))
                    found += self._iter_history(call) if is_continued else ()
            yield found

    def _iter_history(self, call: FoundCall) -> Iterator[_Sent]:
        """Yield the earlier requests of a call's thread, back to a call that is itself within the filter."""
        for usage_id in threads.iter_before(self._db, call.usage_id):
            row = self._db.execute(_ONE, (usage_id,)).fetchone()
            is_gone = row is None  # by retention, since it was found
            if is_gone or self._is_over() or self._only.admits(FoundCall._make(row[:-1])):
                return
            yield _Sent(call, orjson.loads(row[-1] or "[]"), usage_id)
