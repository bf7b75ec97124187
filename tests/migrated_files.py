"""Databases that are made as copies of a migrated file, since migrations take most of a short test.

They run once for each worker, as in a service. Tests of the migrations themselves do without
(tests/store)."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from store import database
from store.control import schema as control_schema
from store.control.database import ControlDatabase
from store.migrations import Migrations
from store.traces import schema as traces_schema
from store.traces.database import TraceDatabase

type Contents = list[tuple[Migrations, bytes]]
"""The files that these migrations make. Older versions of them are others."""


@pytest.fixture(scope="session")
def migrated_files(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    folder = tmp_path_factory.mktemp("migrated")
    control, traces = folder / "control.db", folder / "traces.db"
    with ControlDatabase(control), TraceDatabase(traces):  # the last to close empties the log
        pass
    return [
        (control_schema.migrations, control.read_bytes()),
        (traces_schema.migrations, traces.read_bytes()),
    ]


@pytest.fixture
def quick_databases(migrated_files: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new databases begin as copies for the time of a test."""
    begin_as_copies(monkeypatch, migrated_files)


def begin_as_copies(monkeypatch: pytest.MonkeyPatch, migrated_files: Contents) -> None:
    """Let new databases begin as copies of these until the patches are undone."""
    open_database = database.open_database

    def open_copy(path: Path, migrations: Migrations, **options: Any) -> Any:
        for known, content in migrated_files:
            if migrations is known and not path.exists():
                _make_copy(path, content)
        return open_database(path, migrations, **options)

    monkeypatch.setattr(database, "open_database", open_copy)


def _make_copy(path: Path, content: bytes) -> None:
    """Make the file whole or not at all, since another process may look at it."""
    database._make_private(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    database._make_file(draft)
    draft.write_bytes(content)
    with suppress(FileExistsError):
        path.hardlink_to(draft)
    draft.unlink()
