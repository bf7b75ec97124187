"""Fixtures of the tests of the recorder."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recorder.open_databases import OpenDatabases
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.people import Caller
from store.control.users import Users
from store.spool.writer import SpoolRun
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.manage.organizations import make_people
from tests.store import conftest as of_store
from tests.store.conftest import _databases_are_copies  # noqa: F401

control = of_store.control  # imported by its name, it would be taken for one that is defined twice


class Clock:
    """A monotonic clock that a test moves. Each look at it takes ``step_s``."""

    now_s, step_s = 100.0, 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


class Times:
    """Both clocks: that of the machine, and a monotonic one."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, 12, tzinfo=UTC)
        self.elapsed_s = 100.0

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.elapsed_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[SpoolRun]:
    run = SpoolRun(tmp_path / "spool")
    yield run
    run.close()


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[OpenDatabases]:
    databases = OpenDatabases(tmp_path, RequestPreparer())
    yield databases
    databases.close_all()


@pytest.fixture
def organization(control: ControlDatabase) -> str:
    return control.get_local_organization().id


@pytest.fixture
def management(control: ControlDatabase, tmp_path: Path, times: Times) -> Management:
    return Management(control, tmp_path, lambda: times.now)


@pytest.fixture
def ann(management: Management, control: ControlDatabase) -> Caller:
    return make_people(management, Users(control)).ann


@pytest.fixture
def traces(tmp_path: Path, ann: Caller) -> Iterator[TraceDatabase]:
    """The calls of ann's organisation."""
    with TraceDatabase(trace_path(tmp_path, ann.organization_id)) as traces:
        yield traces
