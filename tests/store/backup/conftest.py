"""A data directory with two organisations, and a clock that is far enough behind every write."""

import shutil
import time
from pathlib import Path

import pytest

from extensions.credentials_in_calls.findings import FoundSecrets, Progress
from runtime.files import replace_private
from store.control import people
from store.control.database import ControlDatabase
from tests.migrated_files import Contents, begin_as_copies
from tests.store.backup.copies import Copy, Place
from tests.store.traffic import agent_requests, make_entry


@pytest.fixture(autouse=True)
def _databases_are_copies(quick_databases: None) -> None:
    """Save the migrations."""


def later_ns() -> int:
    """Return a time that is long after each write of a test."""
    return time.time_ns() + 60 * 10**9


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, migrated_files: Contents) -> Place:
    """The data directory that tests have copies of, and its backup beside it."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        begin_as_copies(patch, migrated_files)
        place = make_place(folder / "data")
        Copy(place, folder / "backup", later_ns).make()
    return place


@pytest.fixture
def place(template: Place, tmp_path: Path) -> Place:
    """Two organisations with calls: ``a`` has bodies of all kinds, findings and a reconciliation."""
    place = Place(tmp_path / "data", dict(template.organizations))
    shutil.copytree(template.data_dir, place.data_dir)
    return place


def make_place(data_dir: Path) -> Place:
    place = Place(data_dir)
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
def made(copy: Copy, template: Place) -> Copy:
    """The same, made once. Its databases are others than the backup was made of."""
    shutil.copytree(template.data_dir.with_name("backup"), copy.folder)
    return copy


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An empty data directory."""
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    return target
