"""Generation of ``datasette-metadata.json``, and the check for a stale file."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dashboard.tables.metadata.canned_queries import read_queries
from dashboard.tables.metadata.declarations import MetadataError
from dashboard.tables.metadata.descriptions import Schema, describe_tables, read_descriptions
from store.database import open_readonly
from store.traces.database import TraceDatabase

FOLDER = Path(__file__).parent


def generate(folder: Path = FOLDER) -> str:
    """Return the text of ``datasette-metadata.json``. Raises MetadataError."""
    descriptions = read_descriptions(folder)
    with _open_empty_database() as connection:
        schema = _read_schema(connection)
        tables = describe_tables(descriptions, schema)
        queries = read_queries(folder / "queries", connection)
    for name in queries:
        if name in schema:
            raise MetadataError(f"{name}.sql: a table has this name: give the query another")
    traces = {
        "title": descriptions.database.title,
        "description": descriptions.database.description,
        "tables": tables,
        "queries": queries,
    }
    metadata = {"title": descriptions.title, "databases": {"traces": traces}}
    return f"{json.dumps(metadata, indent=2, ensure_ascii=False)}\n"


def is_stale(target: Path, folder: Path = FOLDER) -> bool:
    """Return whether a file differs from what would be generated, or is missing. Raises MetadataError."""
    return not target.exists() or target.read_text() != generate(folder)


@contextmanager
def _open_empty_database() -> Iterator[sqlite3.Connection]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "traces.db"
        TraceDatabase(path).close()
        with closing(open_readonly(path, busy_timeout_s=0)) as connection:
            yield connection


def _read_schema(connection: sqlite3.Connection) -> Schema:
    names = connection.execute("select name from sqlite_master where type in ('table', 'view')")
    return {
        name: [
            row[0] for row in connection.execute("select name from pragma_table_info(?)", [name])
        ]
        for (name,) in names.fetchall()
    }
