"""Functions that open SQLite files, and transactions."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from store import before_release
from store.migrations import Migrations

BUSY_TIMEOUT_MS = 100
MIGRATION_TIMEOUT_MS = 10_000
SMALL_PAGE_BYTES = 4096
LOG_BYTES = 4 * 1024 * 1024  # of the write-ahead log, before it is written back


def open_database(
    path: Path,
    migrations: Migrations,
    *,
    synchronous: str = "FULL",
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    any_thread: bool = False,
    page_bytes: int = SMALL_PAGE_BYTES,
) -> sqlite3.Connection:
    """Open a database for writing; create and migrate it if needed. Transactions are explicit.

    ``any_thread``: the connection may be passed between threads. ``page_bytes`` is the page size of a
    new file. Raises OSError if the folder or file cannot be created, sqlite3.Error, and
    EarlierVersionError, a subclass of sqlite3.DatabaseError."""
    _make_private(path.parent)
    _make_file(path)
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout_ms / 1000,
        isolation_level=None,
        check_same_thread=not any_thread,
    )
    try:
        # It does nothing to a file that has a page size.
        connection.execute(f"PRAGMA page_size={page_bytes}")
        _migrate(connection, path.parent, migrations)
        connection.execute(f"PRAGMA busy_timeout={busy_timeout_ms}")
        log_pages = LOG_BYTES // read_page_bytes(connection)
        connection.execute(f"PRAGMA wal_autocheckpoint={log_pages}").fetchall()
        connection.execute(f"PRAGMA synchronous={synchronous}")
        # What is removed is overwritten, by whichever connection it is removed.
        connection.execute("PRAGMA secure_delete=ON").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def open_temporary() -> sqlite3.Connection:
    """Open an empty database for this process alone, which is deleted when it is closed.

    SQLite moves it to the disk when it is large. Transactions are explicit. Raises sqlite3.Error."""
    return sqlite3.connect("", isolation_level=None)


def read_page_bytes(connection: sqlite3.Connection) -> int:
    """Return the page size of a database in bytes."""
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(size)


def open_readonly(
    path: Path, *, busy_timeout_s: float, any_thread: bool = False
) -> sqlite3.Connection:
    """Open an existing database for reading, without creating or migrating anything.

    Transactions are explicit. Raises sqlite3.Error if there is none."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=not any_thread,
    )


def open_held(path: Path) -> sqlite3.Connection:
    """Open an existing database and lock out other writers until the connection is closed.

    The write-ahead log is empty then, so that the file is the whole database. Raises
    sqlite3.OperationalError if another connection uses it now, and sqlite3.Error."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=1.0, isolation_level=None
    )
    log = path.with_name(f"{path.name}-wal")
    try:
        is_empty = empty_log(connection)
        connection.execute("BEGIN IMMEDIATE")
        is_empty &= not log.exists() or log.stat().st_size == 0
    except BaseException:
        connection.close()
        raise
    if not is_empty:
        connection.close()
        raise sqlite3.OperationalError(f"the write-ahead log of {path} is in use")
    return connection


def list_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a table or view; empty if it does not exist.

    In a database that was not migrated yet, the newest columns are missing."""
    rows = connection.execute("select name from pragma_table_info(?)", (table,))
    return {name for (name,) in rows}


def read_records[Record](
    connection: sqlite3.Connection,
    record: Callable[..., Record],
    query: str,
    parameters: Sequence[object] | Mapping[str, object] = (),
) -> list[Record]:
    """Return the rows of a query as records whose fields are the columns. Raises sqlite3.Error."""
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(query, parameters)
    names = [each[0] for each in cursor.description]
    return [record(**dict(zip(names, row, strict=True))) for row in cursor]


def bind_list(values: Iterable[int | str | None]) -> str:
    """Return values as one JSON parameter of a query, which reads it with ``json_each``."""
    return orjson.dumps([*values]).decode()


def make_dict(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    """Return the values of a row by the names of its columns: a row factory."""
    return {each[0]: value for each, value in zip(cursor.description, values, strict=True)}


def open_copy(path: Path) -> sqlite3.Connection:
    """Open for reading a database that nobody writes, without creating files beside it.

    Raises sqlite3.Error."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)


def open_target(path: Path) -> sqlite3.Connection:
    """Open an empty file to be filled with a copy.

    SQLite keeps no journal and does not sync the file to the disk: the caller must. Raises
    sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=OFF").fetchall()
    connection.execute("PRAGMA synchronous=OFF")
    return connection


@contextmanager
def immediate(connection: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction that holds the write lock from its beginning; roll it back on any exception.

    No other process can change what it has read before it writes."""
    with _transaction(connection, "BEGIN IMMEDIATE"):
        yield


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction for several reads that see the same state. Blocks no writer."""
    with _transaction(connection, "BEGIN"):
        yield


def empty_log(connection: sqlite3.Connection) -> bool:
    """Write all pages of the write-ahead log back and truncate it; return whether that was possible.

    It is not while another connection reads an earlier state, or writes."""
    (usual,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout=0")  # whoever waits here keeps others waiting
    try:
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:  # somebody else writes it back
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout={usual}")
    return not is_busy


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk, for one, has rolled it back already
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, folder: Path, migrations: Migrations) -> None:
    """Apply pending migrations. Changes the busy timeout of the connection."""
    with suppress(sqlite3.OperationalError):  # another process migrates it: wait for its end below
        if _is_migrated(connection, migrations):
            return
    # A migration may take longer than the busy timeout. A second process waits for its end here,
    # rather than fail, and then finds nothing left to do.
    with _locked(folder):
        if _is_migrated(connection, migrations):
            return
        is_from_before = before_release.check(connection)
        # Others may look at it at any moment, which only delays the change to WAL.
        connection.execute(f"PRAGMA busy_timeout={MIGRATION_TIMEOUT_MS}")
        # Only an empty file can take auto_vacuum, and WAL makes it not empty.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        with immediate(connection):
            if is_from_before:
                before_release.take_over(connection, migrations.names[0])
            migrations.apply(connection)


def _is_migrated(connection: sqlite3.Connection, migrations: Migrations) -> bool:
    """Return whether no migration is pending. Raises sqlite3.OperationalError if the file is locked."""
    (journal_mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return journal_mode == "wal" and not migrations.is_pending(connection)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make_file(path: Path) -> None:
    """Create the database file, readable by its owner only; SQLite would let the umask decide.

    SQLite gives the write-ahead log the mode of the file. An existing file must not be opened, not even
    for a moment: closing it would drop the locks of every connection that this process has to it. The
    last connection of another process could then delete the write-ahead log, which the connections of
    this process go on writing to."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _make_private(folder: Path) -> None:
    """Create a directory and its parents, all accessible to their owner only.

    ``mkdir`` applies the mode only to the last one."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
