"""Copying the hourly sums into their newer table a few rows at a time.

A migration is one transaction, and to copy and drop some 100,000 rows in it holds the write lock for a
quarter of a second. So the rows are copied before it, in short transactions; the migration only gives the
copy its name (``take_copy``), and the rows of the old table are removed after it. Readers see all sums at
any moment. Where another process has written meanwhile the copy is of no use, and the migration copies.
What a process that is killed leaves behind is removed by the next one.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from store.database import MigrationSteps, immediate, list_columns

ROWS = 5_000  # of one transaction: some 20 ms
TABLE, COPY, BEFORE = "usage_hourly", "usage_hourly_copy", "usage_hourly_before"
NEW_TABLE = """
        create table usage_hourly (
            hour text not null,             -- YYYY-MM-DDTHH, UTC
            proxy_endpoint_id text not null,
            slug text not null,
            model text not null,            -- of the pass; '': not known, as in the next three
            client text not null default '',
            credential_hmac text not null default '',
            billing text not null default '',
            entries integer not null,       -- calls, with the model of the call
            errors integer not null,        -- neither complete nor ended by the client
            unpriced integer not null,      -- there is usage, but no known price
            maybe_billed integer not null,
            timed integer not null,         -- entries that have a duration
            input_tokens integer not null,  -- tokens: those that are billed
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cache_write_1h_tokens integer not null default 0,
            web_search_requests integer not null default 0,
            unbilled_tokens integer not null default 0,
            unpriced_tokens integer not null default 0,
            cost_cents real not null,
            estimated_cents real not null,
            duration_ms real not null,
            primary key (hour, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
        ) without rowid
        """
_KEY = ("hour", "proxy_endpoint_id", "slug", "model")
_KEPT = (
    *_KEY,
    "entries",
    "errors",
    "unpriced",
    "timed",
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cost_cents",
    "duration_ms",
)
# Booked anew from 0: who takes a call out of the older sums cannot know whether these count it.
_ANEW = ("estimated_cents", "maybe_billed")

type _Place = tuple[str, ...]


def take_copy(connection: sqlite3.Connection) -> None:
    """Put the newer table in the place of the older one, which stays under another name.

    Wants the write lock. Copies the rows if there is no copy that is as new as they are."""
    is_copied = _is_copied(connection)
    connection.execute(f"alter table {TABLE} rename to {BEFORE}")
    if not is_copied:
        connection.execute(NEW_TABLE)
        connection.execute(_insert(BEFORE, TABLE))
        connection.execute(f"drop table {BEFORE}")
        return
    connection.execute(f"alter table {COPY} rename to {TABLE}")
    # SQLite has put the name in quotes. The schema shall be the same, however it came about.
    connection.execute("pragma writable_schema = on")
    connection.execute("update sqlite_schema set sql = ? where name = ?", (_as_stored(), TABLE))
    connection.execute("pragma writable_schema = off")


def _prepare(connection: sqlite3.Connection) -> None:
    """Copy the sums for the migration, unless they are few or it has been done."""
    columns = list_columns(connection, TABLE)
    if not columns or "client" in columns or _find_end(connection, TABLE, None) is None:
        return
    (version,) = connection.execute("pragma data_version").fetchone()
    _remove(connection, COPY)
    with immediate(connection):
        connection.execute(NEW_TABLE.replace(TABLE, COPY, 1))
    insert = _insert(TABLE, COPY)
    for condition, values in _divide(connection, TABLE):
        with immediate(connection):
            connection.execute(f"{insert} where {condition}", values)
    connection.execute("create temp table if not exists copied_at (data_version)")
    connection.execute("insert into copied_at values (?)", (version,))


def _finish(connection: sqlite3.Connection) -> None:
    for table in (COPY, BEFORE):
        _remove(connection, table)


def _is_finished(connection: sqlite3.Connection) -> bool:
    return not any(list_columns(connection, table) for table in (COPY, BEFORE))


STEPS = MigrationSteps(prepare=_prepare, finish=_finish, is_finished=_is_finished)


def _is_copied(connection: sqlite3.Connection) -> bool:
    """Return whether there is a copy, made by this connection, and no other one has written since."""
    if not list_columns(connection, "copied_at"):
        return False
    (made_at,) = connection.execute("select max(data_version) from copied_at").fetchone()
    (version,) = connection.execute("pragma data_version").fetchone()
    return bool(made_at == version)


def _insert(source: str, target: str) -> str:
    names, values = ", ".join((*_KEPT, *_ANEW)), ", ".join((*_KEPT, *("0" for _ in _ANEW)))
    return f"insert into {target} ({names}) select {values} from {source}"  # noqa: S608 - our own names


def _remove(connection: sqlite3.Connection, table: str) -> None:
    """Remove a table, its rows first."""
    if not list_columns(connection, table):
        return
    for condition, values in _divide(connection, table):
        with immediate(connection):
            connection.execute(f"delete from {table} where {condition}", values)  # noqa: S608 - our own names
    with immediate(connection):
        connection.execute(f"drop table {table}")


def _divide(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield conditions, with their values, for so many rows each, in order of their keys."""
    names, marks = ", ".join(_KEY), ", ".join("?" * len(_KEY))
    after: _Place = ("",) * len(_KEY)
    while (end := _find_end(connection, table, after)) is not None:
        yield f"({names}) > ({marks}) and ({names}) <= ({marks})", (*after, *end)
        after = end
    yield f"({names}) > ({marks})", after


def _find_end(connection: sqlite3.Connection, table: str, after: _Place | None) -> _Place | None:
    """Return the key of the last of so many rows after a place, None where there are fewer."""
    names, marks = ", ".join(_KEY), ", ".join("?" * len(_KEY))
    found: _Place | None = connection.execute(
        f"select {names} from {table} where ({names}) > ({marks})"  # noqa: S608 - our own names
        f" order by {names} limit 1 offset ?",
        (*(after or ("",) * len(_KEY)), ROWS - 1),
    ).fetchone()
    return found


def _as_stored() -> str:
    """Return the text of the table as SQLite stores it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(NEW_TABLE)
        (text,) = connection.execute("select sql from sqlite_schema").fetchone()
        return str(text)
