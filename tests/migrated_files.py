"""Databases that are made as copies of a migrated file, since migrations take most of a short test.

They run once for each worker, as in a service. Tests of the migrations themselves do without
(tests/store)."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from store import database
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase

type Contents = dict[str, bytes]
"""What a database of this name holds when it is new."""


@pytest.fixture(scope="session")
def migrated_files(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    folder = tmp_path_factory.mktemp("migrated")
    control, traces = folder / "control.db", folder / "traces.db"
    with ControlDatabase(control), TraceDatabase(traces):  # the last to close empties the log
        pass
    return {path.name: path.read_bytes() for path in (control, traces)}


@pytest.fixture
def quick_databases(migrated_files: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the time of a test, a new database begins as a copy."""
    make_empty = database._make_file

    def make_file(path: Path) -> None:
        content = migrated_files.get(path.name)
        if content is None or path.exists():
            make_empty(path)
            return
        # Whole or not at all, since another process may look at it.
        draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
        make_empty(draft)
        draft.write_bytes(content)
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()

    monkeypatch.setattr(database, "_make_file", make_file)
