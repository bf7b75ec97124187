"""A data directory with two organisations, and a clock that is far enough behind every write."""

import time
from pathlib import Path

import pytest

from extensions.credentials_in_calls.findings import FoundSecrets, Progress
from runtime.files import replace_private
from store.control import people
from store.control.database import ControlDatabase
from tests.store.backup.copies import Copy, Place
from tests.store.traffic import agent_requests, make_entry


@pytest.fixture(autouse=True)
def _databases_are_copies(quick_databases: None) -> None:
    """Save the migrations."""


def later_ns() -> int:
    """Return a time that is long after each write of a test."""
    return time.time_ns() + 60 * 10**9


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Two organisations with calls: ``a`` has bodies of all kinds, findings and a reconciliation."""
    place = Place(tmp_path / "data")
    with ControlDatabase(place.data_dir / "control.db") as control:
        control.set_up()
        with control.transaction() as db:
            for name in place.organizations:
                place.organizations[name] = people.create_organization(db, name).id
    bodies = [*agent_requests(3), b"\xff\x00 no text", "„ü“".encode(), b"", None]
    entries = [
        make_entry(request_body=each, response_body=None if each is None else each[:99])
        for each in bodies
    ]
    place.insert("a", *entries)
    place.insert("b", make_entry(request_body=b"{}"))
    findings = FoundSecrets(place.traces("a"))
    findings.add(Progress(usage_id=2, piece_id=3), [])
    findings.close()
    replace_private(place.traces("a").with_name("reconciliation.json"), b"{}")
    return place


@pytest.fixture
def copy(place: Place, tmp_path: Path) -> Copy:
    """The folder of its backup."""
    return Copy(place, tmp_path / "backup", later_ns)


@pytest.fixture
def made(copy: Copy) -> Copy:
    """The same, made once."""
    copy.make()
    return copy


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An empty data directory."""
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    return target
