"""SQL text of whole databases, which makes them again."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).parent


def find_dumps(kind: str) -> list[Path]:
    """Return the stored databases of this kind, such as ``traces``."""
    return sorted(FOLDER.glob(f"{kind}-*.sql"))


def load(dump: Path, path: Path) -> None:
    """Make the database that a dump is of."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(dump.read_text())
    path.chmod(0o600)


def make_dump(path: Path) -> str:
    """Return a database as SQL text, with the pragmas that an empty file takes."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = bytes
        return "\n".join(_dump(connection)) + "\n"


def _dump(connection: sqlite3.Connection) -> Iterator[str]:
    yield "pragma auto_vacuum = incremental;"
    yield "pragma journal_mode = wal;"
    yield "pragma foreign_keys = off;"
    yield "begin;"
    schema = [
        (kind.decode(), name.decode(), sql.decode())
        for kind, name, sql in connection.execute(
            "select type, name, sql from sqlite_schema where sql is not null order by rowid"
        )
    ]
    virtual = [name for _, name, sql in schema if sql.lower().startswith("create virtual table")]
    inner = re.compile(rf"(?:{'|'.join(virtual)})_\w+" if virtual else r"(?!)")
    for kind, name, sql in schema:
        if name.startswith("sqlite_"):
            continue
        if inner.fullmatch(name):  # made with its table, with rows that it begins with
            yield f'delete from "{name}";'  # noqa: S608 - our own tables
        else:
            yield f"{sql};"
        if kind == "table" and name not in virtual:
            yield from _insert_rows(connection, name)
    if any(name == "sqlite_sequence" for _, name, _ in schema):
        yield "delete from sqlite_sequence;"
        yield from _insert_rows(connection, "sqlite_sequence")
    yield "commit;"


def _insert_rows(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    columns = [row[1].decode() for row in connection.execute(f'pragma table_info("{table}")')]
    quoted = ", ".join(f"quote({name!r})".replace("'", '"') for name in columns)
    for row in connection.execute(f'select {quoted} from "{table}"'):  # noqa: S608 - our own tables
        values = ", ".join(value.decode() for value in row)
        yield f'insert into "{table}" values ({values});'  # noqa: S608
