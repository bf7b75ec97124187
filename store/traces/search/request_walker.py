"""Walks of stored requests that skip parts walked before.

The next request of a conversation has nearly all segments of the one before. If such a segment, or
a piece, begins at the same parse position as before, it ends at the same one too, and is not read."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from store.database import bind_list
from store.traces.search.walk import Step
from wire.request_strings import MAX_TOKENS, Position

_START = Position().freeze()


class _Span(NamedTuple):
    """The parse positions at the beginning and end of a piece or a segment."""

    start: str
    end: str


class RequestWalker:
    """A walker of requests that remembers the positions of segments and pieces."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._segments: dict[int, _Span] = {}
        self._pieces: dict[int, _Span] = {}
        # Read ahead.
        self._lists: dict[int, list[int]] = {}
        self._texts: dict[int, bytes] = {}

    def __len__(self) -> int:
        """Return the number of segments or of pieces remembered, whichever is larger."""
        return max(len(self._segments), len(self._pieces))

    def read_ahead(self, requests: Iterable[Sequence[int]]) -> None:
        """Read the unknown parts of requests that will be walked, with two statements for all of them."""
        missing = {each for ids in requests for each in ids if each not in self._segments}
        self._lists = read_lists(self._db, list(missing))
        pieces = {each for ids in self._lists.values() for each in ids if each not in self._pieces}
        self._texts = _read_pieces(self._db, list(pieces))

    def forget_read_ahead(self) -> None:
        """Free the memory of parts that were read ahead."""
        self._lists, self._texts = {}, {}

    def walk(self, segment_ids: Sequence[int]) -> dict[int, Step]:
        """Walk a request, and return the steps over pieces that are not remembered, by piece id."""
        steps: dict[int, Step] = {}
        frozen, position, tokens = _START, None, 0
        for segment_id in segment_ids:
            start = frozen
            known = self._segments.get(segment_id)
            if known is not None and known.start == frozen:
                frozen, position = known.end, None
                continue
            for piece_id in self._take_list(segment_id):
                span = self._pieces.get(piece_id)
                if span is not None and span.start == frozen:
                    frozen, position = span.end, None
                    continue
                if position is None:
                    position = Position.thaw(frozen)
                before = position.tokens
                step = Step(position, self._get_text(piece_id))
                tokens += position.tokens - before
                if tokens > MAX_TOKENS:
                    return steps
                steps.setdefault(piece_id, step)
                after = position.freeze()
                self._pieces[piece_id] = _Span(frozen, after)
                frozen = after
            self._segments[segment_id] = _Span(start, frozen)
        return steps

    def _take_list(self, segment_id: int) -> Sequence[int]:
        """Return the pieces of a segment, empty if it is gone."""
        found = self._lists.pop(segment_id, None)
        return read_lists(self._db, [segment_id]).get(segment_id, ()) if found is None else found

    def _get_text(self, piece_id: int) -> bytes:
        """Return the bytes of a piece, b"" if it is gone."""
        # Not taken away: the piece that ends a message is in each of them.
        if piece_id not in self._texts:
            self._texts |= _read_pieces(self._db, [piece_id])
        return self._texts.get(piece_id, b"")


def read_lists(db: sqlite3.Connection, segment_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the piece ids of each of these segments, without segments that are gone."""
    sql = "select id, piece_ids from segments where id in (select value from json_each(?))"
    rows = db.execute(sql, (bind_list(segment_ids),))
    return {segment_id: orjson.loads(ids) for segment_id, ids in rows}


def _read_pieces(db: sqlite3.Connection, piece_ids: Sequence[int]) -> dict[int, bytes]:
    sql = "select id, cast(text as blob) from pieces where id in (select value from json_each(?))"
    return dict(db.execute(sql, (bind_list(piece_ids),)))
