"""Inserting of rows into wide tables in which most values of a row are null.

Python's sqlite3 takes longer to bind a null than a number or a text, since it looks for an adapter.
So a statement names only the columns that have a value. Rows for the calls of one client usually
have the same ones."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

type Row = Sequence[object]


def insert_rows(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Row],
    on_conflict: str = "",
) -> None:
    """Insert rows in order; each has a value or None for each of ``columns``.

    The first column of a row must have a value. The caller holds the write lock."""
    for has_value, alike in groupby(rows, _list_values):
        names = [name for name, is_known in zip(columns, has_value, strict=True) if is_known]
        connection.executemany(
            _write_insert(table, tuple(names), on_conflict),
            [[value for value in row if value is not None] for row in alike],
        )


def _list_values(row: Row) -> list[bool]:
    return [value is not None for value in row]


@lru_cache(maxsize=100)
def _write_insert(table: str, names: Sequence[str], on_conflict: str) -> str:
    marks = ", ".join("?" * len(names))
    return f"insert into {table} ({', '.join(names)}) values ({marks}) {on_conflict}"  # noqa: S608 - our own names
