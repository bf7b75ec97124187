"""Commands run in process, on a real data directory of their own."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from manage.cli.main import cli
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path

type Run = Callable[..., Result]

PRICES = """
[[models]]
match = "claude-future-*"
starts = 2026-01-01
input = 2
output = 10
cache_read = 0.2
cache_write_5m = 2.5
cache_write_1h = 4
"""


@pytest.fixture(autouse=True)
def databases_are_copies(quick_databases: None) -> None:
    """Save the migrations: most of these tests make a database or two."""


@pytest.fixture(autouse=True)
def days_do_not_end(steady_clock: None) -> None:
    """Let tests say what is shown of today, this month and the last week."""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("TAXIMETER_"):
            monkeypatch.delenv(name)


# The product gives up on these after some seconds, which a busy machine may take.
LIMITS = (
    "manage.cli.checkout.GIT_S",
    "manage.doctor.database_checks.DAMAGE_S",
    "manage.doctor.extension_checks.TRIAL_S",
    "manage.doctor.service_check.HEALTH_TIMEOUT_S",
    "manage.doctor.transparency.PATIENCE_S",
    "manage.doctor.trial_proxy.START_S",
    "manage.healthcheck.TIMEOUT_S",
    "manage.supervision.children.LAST_LINES_S",
    "runtime.heartbeat.FRESH_FOR_S",
    "store.traces.search.reader.COUNT_S",
    "store.traces.search.reader.HARD_LIMIT_S",
    "store.traces.search.reader.SEARCH_S",
)


@pytest.fixture(autouse=True)
def all_the_time_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what has a limit of time have a minute; a test of such a limit sets it itself."""
    for name in LIMITS:
        monkeypatch.setattr(name, 60.0)


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a machine nine hours east of Greenwich, where what is local is seen at once."""
    monkeypatch.setenv("TZ", "XYZ-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    with ControlDatabase(tmp_path / "data" / "control.db") as control:
        control.set_up()
    return tmp_path / "data"


@pytest.fixture
def run(data_dir: Path) -> Run:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--data-dir", str(data_dir)])

    return run


@pytest.fixture
def traces(data_dir: Path) -> Iterator[TraceDatabase]:
    """Open the traces of the local organisation."""
    with ControlDatabase(data_dir / "control.db") as control:
        organization = control.get_local_organization()
    with TraceDatabase(trace_path(data_dir, organization.id)) as traces:
        yield traces
