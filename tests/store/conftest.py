import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import clock
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.manage.organizations import People, make_people


class Now:
    """A clock that stands until a test moves ``at``."""

    def __init__(self):
        self.at = clock.now()

    def __call__(self):
        return self.at


@pytest.fixture(autouse=True)
def _databases_are_copies(quick_databases: None) -> None:
    """Save the migrations; a file of tests about these has a fixture of this name that does not."""


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlDatabase]:
    """The control database after a first start."""
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        yield control


@pytest.fixture
def db(control: ControlDatabase) -> Iterator[sqlite3.Connection]:
    """A transaction on it."""
    with control.transaction() as db:
        yield db


@pytest.fixture
def management(control: ControlDatabase, tmp_path: Path, now: Now) -> Management:
    return Management(control, tmp_path, now)


@pytest.fixture
def users(control: ControlDatabase) -> Users:
    return Users(control)


@pytest.fixture
def people(management: Management, users: Users) -> People:
    return make_people(management, users)


@pytest.fixture
def traces_path(tmp_path: Path) -> Path:
    return trace_path(tmp_path / "data", "org_1")


@pytest.fixture
def traces(traces_path: Path) -> Iterator[TraceDatabase]:
    with TraceDatabase(traces_path) as database:
        yield database
