"""The tables of the search index, and the functions that keep them consistent with stored texts.

Two full-text tables have no copy of their texts. ``search_text`` has a row for each piece of a
request, ``search_response`` one for each response; both have a column for each role, so that texts
of one role are found without reading others. The text of a response is repeated in the next
request, and a message that was the last one is repeated as another piece. Such a piece is not
indexed again: ``copy_of`` is the id of the piece with its texts or, below zero, of the call whose
response has them.

A text can be removed from such a table only with exactly the text that was indexed. So texts are
computed only from stored data: a piece and its recipe, or a response. A version that computes them
in another way has to empty both tables and begin anew (``progress.begin_anew``), or words would
stay for good.

The first column takes two bytes less for each word; most text is in results of tools."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import get_args

from store.database import bind_list, list_columns
from store.traces.search.responses import read_response
from store.traces.search.text import separate_ideographs
from store.traces.search.walk import Role, Texts, read_piece

ROLES: tuple[Role, ...] = get_args(Role.__value__)
_PLACES = {role: place for place, role in enumerate(ROLES)}
_COLUMNS = f"rowid, {', '.join(ROLES)}"
_MARKS = ", ".join("?" * (1 + len(ROLES)))
# Deltas of rowids instead of sizes of documents: nothing here is ranked.
_OPTIONS = "content='', columnsize=0, tokenize='unicode61 remove_diacritics 2'"
TABLES = (
    f"create virtual table search_text using fts5({', '.join(ROLES)}, {_OPTIONS})",
    f"create virtual table search_response using fts5({', '.join(ROLES)}, {_OPTIONS})",
    """
    create table search_pieces (
        piece_id integer primary key references pieces(id),
        usage_id integer not null,      -- the first call whose request has the piece
        recipe_id integer not null references search_recipes(id),
        copy_of integer                 -- what has the same texts; below zero: a response
    )
    """,
    "create index search_pieces_usage on search_pieces (usage_id)",
    "create index search_pieces_copy on search_pieces (copy_of) where copy_of is not null",
    "create table search_recipes (id integer primary key, recipe text not null unique)",
    "create table search_responses (usage_id integer primary key references usage(id))",
    # Pieces that lost their first call, or what has their texts: work of retention.
    "create table search_moves (piece_id integer primary key)",
    "create table search_progress (indexed_to_id integer not null)",
    "create table search_gaps (to_id integer primary key, from_id integer not null)",
    # Eight parts of a size are merged, not four, so that each word is written less often.
    *(
        f"insert into {table} ({table}, rank) values ('automerge', 8)"  # noqa: S608 - our own names
        for table in ("search_text", "search_response")
    ),
)


@dataclass(slots=True, kw_only=True)  # not frozen: made for each piece, three times as fast
class PieceRow:
    """A piece to be indexed."""

    piece_id: int
    usage_id: int
    recipe: str
    texts: Texts
    copy_of: int | None = None


@dataclass(slots=True, kw_only=True)  # not frozen, as above
class ResponseRow:
    """A response to be indexed."""

    usage_id: int
    texts: Texts


def exists(connection: sqlite3.Connection) -> bool:
    """Return whether the recorder has created the tables."""
    return bool(list_columns(connection, "search_gaps"))


def write_pieces(connection: sqlite3.Connection, rows: Sequence[PieceRow]) -> None:
    """Index pieces that are not indexed yet. The caller holds the write lock."""
    known = _list_known(connection, "search_pieces", "piece_id", [row.piece_id for row in rows])
    new = [row for row in rows if row.piece_id not in known]
    connection.executemany(
        "insert or ignore into search_recipes (recipe) values (?)",
        [(recipe,) for recipe in {row.recipe for row in new}],
    )
    connection.executemany(
        "insert into search_pieces (piece_id, usage_id, recipe_id, copy_of)"
        " values (?, ?, (select id from search_recipes where recipe = ?), ?)",
        [(row.piece_id, row.usage_id, row.recipe, row.copy_of) for row in new],
    )
    texts = ((row.piece_id, row.texts) for row in new if row.copy_of is None)
    connection.executemany(_write_add("search_text"), _make_rows(texts))


def write_responses(connection: sqlite3.Connection, rows: Sequence[ResponseRow]) -> None:
    """Index responses that are not indexed yet. The caller holds the write lock."""
    known = _list_known(connection, "search_responses", "usage_id", [row.usage_id for row in rows])
    new = [row for row in rows if row.usage_id not in known]
    connection.executemany(
        "insert into search_responses (usage_id) values (?)", [(row.usage_id,) for row in new]
    )
    texts = ((row.usage_id, row.texts) for row in new)
    connection.executemany(_write_add("search_response"), _make_rows(texts))


def remove_response(connection: sqlite3.Connection, usage_id: int) -> None:
    """Remove the response of a call from the index, and note the pieces that depend on the call.

    Call this before the call is removed. The caller holds the write lock."""
    connection.execute(
        "insert or ignore into search_moves"
        " select piece_id from search_pieces where usage_id = :id"
        " union select piece_id from search_pieces where copy_of = -:id",
        {"id": usage_id},
    )
    found = connection.execute("delete from search_responses where usage_id = ?", (usage_id,))
    if found.rowcount:
        texts = read_response_texts(connection, usage_id)
        _remove(connection, "search_response", usage_id, texts)


def remove_piece(connection: sqlite3.Connection, piece_id: int) -> None:
    """Remove a piece from the index, and note its copies.

    Call this before the piece is deleted. The caller holds the write lock."""
    found = _read_row(connection, piece_id)
    if found is not None:
        if found.copy_of is None:
            _remove(connection, "search_text", piece_id, found.texts)
        connection.execute("delete from search_pieces where piece_id = ?", (piece_id,))
        connection.execute(
            "insert or ignore into search_moves select piece_id from search_pieces where copy_of = ?",
            (piece_id,),
        )
    connection.execute("delete from search_moves where piece_id = ?", (piece_id,))


def move_piece(connection: sqlite3.Connection, piece_id: int, usage_id: int) -> None:
    """Set the first call of a piece.

    If the piece or response that it was a copy of is gone, the piece is indexed itself, and other
    copies become copies of it. The caller holds the write lock."""
    connection.execute(
        "update search_pieces set usage_id = ? where piece_id = ?", (usage_id, piece_id)
    )
    found = _read_row(connection, piece_id)
    if (
        found is not None
        and found.copy_of is not None
        and not is_indexed(connection, found.copy_of)
    ):
        connection.executemany(_write_add("search_text"), _make_rows([(piece_id, found.texts)]))
        connection.execute(
            "update search_pieces set copy_of = nullif(:new, piece_id) where copy_of = :old",
            {"new": piece_id, "old": found.copy_of},
        )
    connection.execute("delete from search_moves where piece_id = ?", (piece_id,))


def is_indexed(connection: sqlite3.Connection, source: int) -> bool:
    """Return whether the piece ``source`` or, below zero, the response of a call is indexed."""
    sql = (
        "select 1 from search_responses where usage_id = ?"
        if source < 0
        else "select 1 from search_pieces where piece_id = ? and copy_of is null"
    )
    return connection.execute(sql, (abs(source),)).fetchone() is not None


def read_piece_texts(connection: sqlite3.Connection, piece_id: int) -> Texts:
    """Return the texts of an indexed piece, [] if it is gone."""
    found = _read_row(connection, piece_id)
    return [] if found is None else found.texts


def read_response_texts(connection: sqlite3.Connection, usage_id: int) -> Texts:
    """Return the texts of a response, [] if there is none."""
    row = connection.execute(
        "select cast(body as blob) from response_bodies where usage_id = ?", (usage_id,)
    ).fetchone()
    return [] if row is None else read_response(bytes(row[0]))


def list_first_texts(
    connection: sqlite3.Connection, calls: Sequence[int]
) -> Iterator[tuple[int, Texts]]:
    """Yield (id, texts) of the indexed pieces whose first call is one of ``calls``."""
    for usage_id in calls:
        rows = connection.execute(
            "select piece_id from search_pieces where usage_id = ? and copy_of is null", (usage_id,)
        ).fetchall()
        for (piece_id,) in rows:
            yield piece_id, read_piece_texts(connection, piece_id)


def has_request(connection: sqlite3.Connection, usage_id: int) -> bool:
    """Return whether the request body of a call is stored."""
    return _are_all_there(connection, "request_bodies", {usage_id})


def have_requests(connection: sqlite3.Connection, calls: Set[int]) -> bool:
    """Return whether the request bodies of all these calls are stored."""
    return _are_all_there(connection, "request_bodies", calls)


def have_responses(connection: sqlite3.Connection, calls: Set[int]) -> bool:
    """Return whether the response bodies of all these calls are stored."""
    return _are_all_there(connection, "response_bodies", calls)


def _are_all_there(connection: sqlite3.Connection, table: str, calls: Set[int]) -> bool:
    sql = f"select count(*) from {table} where usage_id in (select value from json_each(?))"  # noqa: S608 - one of two names
    (count,) = connection.execute(sql, (bind_list(calls),)).fetchone()
    return bool(count == len(calls))


def _read_row(connection: sqlite3.Connection, piece_id: int) -> PieceRow | None:
    row = connection.execute(
        "select s.usage_id, s.copy_of, r.recipe, cast(p.text as blob) from search_pieces as s"
        " join search_recipes as r on r.id = s.recipe_id join pieces as p on p.id = s.piece_id"
        " where s.piece_id = ?",
        (piece_id,),
    ).fetchone()
    if row is None:
        return None
    usage_id, copy_of, recipe, piece = row
    return PieceRow(
        piece_id=piece_id,
        usage_id=usage_id,
        recipe=recipe,
        texts=read_piece(bytes(piece), recipe),
        copy_of=copy_of,
    )


def _list_known(
    connection: sqlite3.Connection, table: str, column: str, ids: Sequence[int]
) -> set[int]:
    sql = f"select {column} from {table} where {column} in (select value from json_each(?))"  # noqa: S608 - our own names
    return {row[0] for row in connection.execute(sql, (bind_list(ids),))}


def _write_add(table: str) -> str:
    """Return the SQL that inserts a row of ``_make_rows`` into a full-text table."""
    return f"insert into {table} ({_COLUMNS}) values ({_MARKS})"  # noqa: S608 - our own names


def _remove(connection: sqlite3.Connection, table: str, rowid: int, texts: Texts) -> None:
    """Remove the row ``rowid`` with these texts from a full-text table."""
    connection.executemany(
        f"insert into {table} ({table}, {_COLUMNS}) values ('delete', {_MARKS})",  # noqa: S608 - our own names
        _make_rows([(rowid, texts)]),
    )


def _make_rows(texts: Iterable[tuple[int, Texts]]) -> Iterator[tuple[object, ...]]:
    """Yield the values of each row of a full-text table. A row without texts is left out."""
    for rowid, each in texts:
        if each:
            yield rowid, *_make_columns(each)


def _make_columns(texts: Texts) -> Sequence[str | None]:
    columns: list[list[str]] = [[] for _ in ROLES]
    for role, text in texts:
        columns[_PLACES[role]].append(separate_ideographs(text))
    return ["\n".join(each) or None for each in columns]
