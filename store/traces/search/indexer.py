"""Indexing of the calls of one organisation, a little at a time.

A call is read without a lock: its new parts are found by the ids of its segments and pieces, so of
a long conversation only the last turn is read. Texts of several calls are then written in one
transaction. Known segments, pieces and responses are kept in a memory, which only saves time, with
one exception: it tells which text repeats a response; if that is not known, the text is indexed
twice.

Each batch is indexed from its oldest call on, so that a piece is stored with its first call.
Batches of old calls are indexed newest first, so an older call may have a piece that is indexed
already. Everything but the progress may be written again without harm, so a process that is killed
repeats at most one batch."""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched
from typing import NamedTuple

import orjson

from store import database
from store.traces.search import index, progress
from store.traces.search.index import PieceRow, ResponseRow
from store.traces.search.request_walker import RequestWalker, read_lists
from store.traces.search.responses import read_response
from store.traces.search.walk import Step, Texts

MAX_NEW = 2_000  # calls that came since the last time; more than that wait like old ones
BATCH = 16
CALLS_AT_ONCE, BYTES_AT_ONCE = 16, 4 * 1024 * 1024  # read ahead
MAX_BODY_BYTES = 8 * 1024 * 1024  # a larger request is not searched
FLUSH_CHARS = 60_000  # so many are written in some 10 ms, and merging parts takes up to 50 ms
_MOVES_AT_ONCE = 4_000
_MAX_REMEMBERED = 50_000
_MAX_RESPONSES_READ = 300


_CALLS = (
    "select u.id, u.session_id, u.agent_id, u.request_body_length, q.segment_ids,"
    " cast(r.body as blob) from json_each(?) as asked left join usage as u on u.id = asked.value"
    " left join request_bodies as q on q.usage_id = u.id"
    " left join response_bodies as r on r.usage_id = u.id"
)


class _Call(NamedTuple):
    id: int
    session_id: str | None
    agent_id: str | None
    segment_ids: Sequence[int]  # none of a request that is not searched
    response: bytes | None


@dataclass(slots=True)
class _Memory:
    """A memory of earlier calls.

    ``requests`` remembers the parts of requests that were walked. ``sources`` has, by key of a text,
    the id of the piece with it or, below zero, of the call whose response has it. ``sessions`` are
    (session, agent) pairs whose last texts are in the memory."""

    requests: RequestWalker
    sources: dict[int, int] = field(default_factory=dict)
    sessions: set[tuple[str | None, str | None]] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        sizes = (len(self.requests), len(self.sources), len(self.sessions))
        return max(sizes) > _MAX_REMEMBERED

    def keep_texts(self, keys: Iterable[int], source: int) -> None:
        """Remember ``source`` for the texts with these keys, unless another source is known."""
        for key in keys:
            self.sources.setdefault(key, source)


@dataclass(slots=True)
class _Batch:
    """Calls to be indexed, oldest first. ``finish`` records that they are indexed."""

    ids: Sequence[int]
    finish: Callable[[], None]
    is_old: bool
    done: int = 0
    ahead: deque[_Call | None] = field(default_factory=deque)  # the next ones; None: it is gone
    first_calls: dict[int, int] = field(default_factory=dict)  # of segments

    def begin_again(self) -> None:
        """Start again from the first call."""
        self.done = 0
        self.ahead.clear()
        self.first_calls.clear()


class Indexer:
    """The indexing of the calls of one trace database.

    Every method may raise sqlite3.Error; the object cannot be used after that."""

    def __init__(self, connection: sqlite3.Connection, clock_s: Callable[[], float]) -> None:
        """Write by ``connection``. ``clock_s`` is a monotonic clock in seconds."""
        self._db = connection
        self._clock_s = clock_s
        self._memory = self._make_memory()
        self._batch: _Batch | None = None
        self._pieces: dict[int, PieceRow] = {}
        self._newest_piece = 0  # that is indexed
        self._responses: list[ResponseRow] = []
        self._chars = 0

    def _make_memory(self) -> _Memory:
        return _Memory(RequestWalker(self._db))

    @property
    def connection(self) -> sqlite3.Connection:
        return self._db

    def run(self, seconds: float) -> bool:
        """Index for about ``seconds``. Return whether there is more to do."""
        ends_at_s = self._clock_s() + seconds
        while True:
            if self._batch is None:
                self._batch = self._find_batch()
            if self._batch is None:
                return False
            self._go_on(self._batch, ends_at_s)
            if self._clock_s() >= ends_at_s:
                return True

    def _find_batch(self) -> _Batch | None:
        """Return the calls since the last batch, otherwise the newest of those in gaps, or None."""
        if self._memory.is_full:
            self._memory = self._make_memory()
        indexed_to = progress.read_indexed_to(self._db)
        (last,) = self._db.execute("select coalesce(max(id), 0) from usage").fetchone()
        if last - indexed_to > MAX_NEW:
            with database.immediate(self._db):
                progress.add_gap(self._db, indexed_to + 1, last)
                progress.write_indexed_to(self._db, last)
        elif last > indexed_to:
            return _Batch(
                self._list_ids(indexed_to + 1, last, MAX_NEW),
                lambda: progress.write_indexed_to(self._db, last),
                is_old=False,
            )
        gap = progress.find_gap(self._db)
        if gap is None:
            return None
        ids = self._list_ids(*gap, BATCH)
        next_id = ids[0] - 1 if ids else 0
        return _Batch(ids, lambda: progress.shrink_gap(self._db, gap, next_id), is_old=True)

    def _list_ids(self, from_id: int, to_id: int, limit: int) -> list[int]:
        """Return the newest ``limit`` row ids from ``from_id`` to ``to_id``, oldest first."""
        rows = self._db.execute(
            "select id from usage where id between ? and ? order by id desc limit ?",
            (from_id, to_id, limit),
        )
        return [row[0] for row in rows][::-1]

    def _go_on(self, batch: _Batch, ends_at_s: float) -> None:
        """Read the next calls of a batch, and write the texts once there are enough of them."""
        with database.snapshot(self._db):
            while batch.done < len(batch.ids):
                if not batch.ahead:
                    self._read_ahead(batch)
                call = batch.ahead.popleft()
                if call is not None:
                    self._take(call, batch)
                batch.done += 1
                if self._chars >= FLUSH_CHARS or self._clock_s() >= ends_at_s:
                    break
        is_last = batch.done >= len(batch.ids)
        if is_last:
            self._memory.requests.forget_read_ahead()
        if is_last or self._chars >= FLUSH_CHARS:
            self._write(batch, is_last=is_last)

    def _read_ahead(self, batch: _Batch) -> None:
        """Read the next calls of a batch, with a few statements for all of them."""
        (newest,) = self._db.execute("select max(piece_id) from search_pieces").fetchone()
        self._newest_piece = newest or 0
        ids = batch.ids[batch.done : batch.done + CALLS_AT_ONCE]
        size = 0
        for usage_id, session_id, agent_id, request_bytes, listed, response in self._db.execute(
            _CALLS, (database.bind_list(ids),)
        ):
            is_walked = listed is not None and (request_bytes or 0) <= MAX_BODY_BYTES
            segment_ids = orjson.loads(listed) if is_walked else ()
            is_there = usage_id is not None
            call = _Call(usage_id, session_id, agent_id, segment_ids, response)
            batch.ahead.append(call if is_there else None)
            size += (request_bytes or 0) + len(response or b"")
            if size > BYTES_AT_ONCE:
                break
        self._memory.requests.read_ahead(
            call.segment_ids for call in batch.ahead if call is not None
        )

    def _take(self, call: _Call, batch: _Batch) -> None:
        if call.segment_ids:
            for segment_id in call.segment_ids if batch.is_old else ():
                batch.first_calls.setdefault(segment_id, call.id)
            self._take_request(call, batch)
        if call.response is not None:
            texts = read_response(call.response)
            self._memory.keep_texts(_list_keys(call.session_id, texts), -call.id)
            if texts:
                self._responses.append(ResponseRow(usage_id=call.id, texts=texts))
                self._count(texts)

    def _count(self, texts: Texts) -> None:
        self._chars += sum(len(text) for _, text in texts)

    def _take_request(self, call: _Call, batch: _Batch) -> None:
        steps = {
            piece_id: step
            for piece_id, step in self._memory.requests.walk(call.segment_ids).items()
            if step.has_text
        }
        known = self._remember_known(call.session_id, steps)
        new = {each: step for each, step in steps.items() if each not in known}
        self._recall(call, len(new), batch)
        for piece_id, step in new.items():
            texts = step.texts
            keys = _list_keys(call.session_id, texts)
            row = PieceRow(
                piece_id=piece_id,
                usage_id=call.id,
                recipe=step.recipe,
                texts=texts,
                copy_of=self._find_source(call, keys),
            )
            self._pieces[piece_id] = row
            if row.copy_of is None:
                self._memory.keep_texts(keys, piece_id)
                self._count(texts)

    def _remember_known(self, session_id: str | None, steps: Mapping[int, Step]) -> set[int]:
        """Remember the texts of those pieces that are indexed, and return the ids of these pieces."""
        known = self._find_known(steps)
        for piece_id, copy_of in known.items():
            keys = _list_keys(session_id, steps[piece_id].texts)
            self._memory.keep_texts(keys, copy_of or piece_id)
        return set(known)

    def _find_known(self, ids: Iterable[int]) -> dict[int, int | None]:
        """Return those of the pieces that are indexed, each with the source that it is a copy of, or None."""
        known = {each: self._pieces[each].copy_of for each in ids if each in self._pieces}
        others = [each for each in ids if each not in known and each <= self._newest_piece]
        if others:  # rarely: of a conversation that is not remembered
            sql = (
                "select piece_id, copy_of from search_pieces"
                " where piece_id in (select value from json_each(?))"
            )
            known |= self._db.execute(sql, (database.bind_list(others),))
        return known

    def _find_source(self, call: _Call, keys: Iterable[int]) -> int | None:
        """Return a source that has all texts with these keys already, or None if any is unknown."""
        found = [self._memory.sources.get(key) for key in keys]
        # A response of the call itself, or of a later one, repeats the request.
        if any(source is None or -source >= call.id for source in found):
            return None
        return found[0]

    def _recall(self, call: _Call, new: int, batch: _Batch) -> None:
        """Remember the responses of earlier calls of the session, unless they are remembered.

        Before an old call the call after it is remembered too, since it is indexed already. ``new`` is
        the number of new pieces: their texts may be those of as many responses."""
        session = call.session_id, call.agent_id
        if session in self._memory.sessions or call.session_id is None:
            return
        self._memory.sessions.add(session)
        rows = self._db.execute(
            "select id from usage where session_id = ? and agent_id is ? and id < ?"
            " order by created_at desc limit ?",
            (*session, call.id, min(new + 1, _MAX_RESPONSES_READ)),
        ).fetchall()
        for (usage_id,) in rows:
            texts = index.read_response_texts(self._db, usage_id)
            self._memory.keep_texts(_list_keys(call.session_id, texts), -usage_id)
        for piece_id, texts in index.list_first_texts(self._db, [row[0] for row in rows[:1]]):
            self._memory.keep_texts(_list_keys(call.session_id, texts), piece_id)
        if batch.is_old:
            self._recall_next(call, batch.ids[-1])

    def _recall_next(self, call: _Call, after_id: int) -> None:
        row = self._db.execute(
            "select u.request_body_length, q.segment_ids from usage as u"
            " join request_bodies as q on q.usage_id = u.id"
            " where u.session_id = ? and u.agent_id is ? and u.id > ? and q.segment_ids is not null"
            " order by u.created_at limit 1",
            (call.session_id, call.agent_id, after_id),
        ).fetchone()
        if row is not None and (row[0] or 0) <= MAX_BODY_BYTES:
            walker, segment_ids = RequestWalker(self._db), orjson.loads(row[1])
            walker.read_ahead([segment_ids])
            self._remember_known(call.session_id, walker.walk(segment_ids))

    def _write(self, batch: _Batch, *, is_last: bool) -> None:
        """Write the texts that were read. ``is_last``: the batch ends with them."""
        rows = sorted(self._pieces.values(), key=lambda row: row.piece_id)
        with database.immediate(self._db):
            if self._is_still_there(rows):
                index.write_responses(self._db, self._responses)
                index.write_pieces(self._db, rows)
                if is_last and not batch.is_old:
                    batch.finish()
            else:  # retention removed some of it meanwhile: read again what is left
                self._memory = self._make_memory()
                batch.begin_again()
                is_last = False
        self._newest_piece = max(self._newest_piece, *self._pieces, 0)
        self._pieces, self._responses, self._chars = {}, [], 0
        if is_last:
            if batch.is_old:
                self._lower_first_calls(batch)
            self._batch = None

    def _is_still_there(self, rows: Sequence[PieceRow]) -> bool:
        """Return whether the texts that are about to be indexed, and the sources of copies, still exist."""
        sources = {row.copy_of for row in rows if row.copy_of is not None}
        responses = {row.usage_id for row in self._responses}
        responses |= {-source for source in sources if source < 0}
        pieces = {source for source in sources if source > 0 and source not in self._pieces}
        return (
            index.have_requests(self._db, {row.usage_id for row in rows})
            and index.have_responses(self._db, responses)
            and all(index.is_indexed(self._db, piece_id) for piece_id in pieces)
        )

    def _lower_first_calls(self, batch: _Batch) -> None:
        """Set the first call of pieces to an older call of this batch, if it has them too."""
        firsts: dict[int, int] = {}
        for segment_id, ids in read_lists(self._db, list(batch.first_calls)).items():
            for piece_id in ids:
                usage_id = batch.first_calls[segment_id]
                firsts[piece_id] = min(usage_id, firsts.get(piece_id, usage_id))
        for some in batched(firsts.items(), _MOVES_AT_ONCE):
            with database.immediate(self._db):
                self._db.executemany(
                    "update search_pieces set usage_id = :call where usage_id > :call and piece_id in"
                    " (:piece, (select copy_of from search_pieces where piece_id = :piece))"
                    " and exists (select 1 from request_bodies where usage_id = :call)",
                    ({"piece": piece_id, "call": usage_id} for piece_id, usage_id in some),
                )
        with database.immediate(self._db):
            batch.finish()


def _list_keys(session_id: str | None, texts: Texts) -> list[int]:
    """Return the keys by which the texts of a session are remembered."""
    return [hash((session_id, role, text.strip())) for role, text in texts]
