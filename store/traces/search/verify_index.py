"""Verification of the search index: every text noted as indexed is in the index.

The full-text tables have no copy of their texts, so of each text one word is looked up in its own
row."""

import re
import sqlite3
from collections.abc import Iterator

from store.database import snapshot
from store.traces.search import index, progress
from store.traces.search.responses import read_response
from store.traces.search.walk import Texts

_PAGE = 100
# A word that every tokenizer takes as one: not beside a letter or a mark of another script.
_WORD = re.compile(r"(?<![^\x00-\x7f])(?<![A-Za-z0-9])[A-Za-z0-9]+(?![A-Za-z0-9])(?![^\x00-\x7f])")
_PIECES = (
    "select s.piece_id, s.copy_of, u.id is not null or m.piece_id is not null"
    " from search_pieces as s left join usage as u on u.id = s.usage_id"
    " left join search_moves as m on m.piece_id = s.piece_id"
    " where s.piece_id > ? order by s.piece_id limit ?"
)
_RESPONSES = (
    "select r.usage_id, s.usage_id is not null, cast(r.body as blob) from response_bodies as r"
    " left join search_responses as s on s.usage_id = r.usage_id"
    " where r.usage_id > ? and r.usage_id <= ? and not exists"
    " (select 1 from search_gaps where r.usage_id between from_id and to_id)"
    " order by r.usage_id limit ?"
)


def check_index(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a description of each fault of the search index. Calls still to be indexed are no faults."""
    if not index.exists(connection):
        return
    yield from _check_pieces(connection)
    yield from _check_responses(connection)


def _check_pieces(connection: sqlite3.Connection) -> Iterator[str]:
    last_id = 0
    while True:
        with snapshot(connection):
            rows = connection.execute(_PIECES, (last_id, _PAGE)).fetchall()
            faults = [fault for row in rows for fault in _check_piece(connection, *row)]
        yield from faults
        if not rows:
            return
        last_id = rows[-1][0]


def _check_piece(
    connection: sqlite3.Connection, piece_id: int, copy_of: int | None, has_call: int
) -> Iterator[str]:
    if not has_call:
        yield f"piece {piece_id} is indexed with a call that is gone"
    if copy_of is None:
        texts = index.read_piece_texts(connection, piece_id)
        if not _is_found(connection, "search_text", piece_id, texts):
            yield f"the words of piece {piece_id} are not in the search index"
    elif not index.is_indexed(connection, copy_of) and not _is_to_move(connection, piece_id):
        yield f"piece {piece_id} is not indexed, and what it is a copy of is not either"


def _check_responses(connection: sqlite3.Connection) -> Iterator[str]:
    last_id, up_to_id = 0, progress.read_indexed_to(connection)
    while True:
        with snapshot(connection):
            rows = connection.execute(_RESPONSES, (last_id, up_to_id, _PAGE)).fetchall()
            faults = [fault for row in rows for fault in _check_response(connection, *row)]
        yield from faults
        if not rows:
            return
        last_id = rows[-1][0]


def _check_response(
    connection: sqlite3.Connection, usage_id: int, is_indexed: int, body: bytes
) -> Iterator[str]:
    texts = read_response(body)
    if texts and not is_indexed:
        yield f"the response of call {usage_id} is not in the search index"
    elif not _is_found(connection, "search_response", usage_id, texts):
        yield f"the words of the response of call {usage_id} are not in the search index"


def _is_found(connection: sqlite3.Connection, table: str, rowid: int, texts: Texts) -> bool:
    """Return whether a word of these texts is in the row ``rowid``, or there is no word to look for."""
    word = next((found[0] for _, text in texts if (found := _WORD.search(text))), None)
    if word is None:
        return True
    sql = f"select 1 from {table}(?) where rowid = ?"  # noqa: S608 - one of two names
    return connection.execute(sql, (f'"{word}"', rowid)).fetchone() is not None


def _is_to_move(connection: sqlite3.Connection, piece_id: int) -> bool:
    sql = "select 1 from search_moves where piece_id = ?"
    return connection.execute(sql, (piece_id,)).fetchone() is not None
