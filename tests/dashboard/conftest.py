"""Fixtures of the tests of pages: a service in this process, and its people."""

import os
import shutil
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time
from types import SimpleNamespace

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from dashboard import kept_connections
from dashboard.queries import isolation, processes, query, query_proxy, responses
from dashboard.tables import sums
from dashboard.tables.trace_browser import SETTINGS
from manage.server import make_app
from manage.supervision import workers
from runtime import clock, heartbeat
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.traces.paths import traces_folder
from store.traces.search import reader as search_reader
from store.traces.sums import overview_reader
from tests.dashboard.people import BASE_URL, Someone, open_browser
from tests.dashboard.query_server import QueryServer

NOW = time(9, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def databases_are_copies(quick_databases):
    """Save the migrations: most of these tests make a database or two."""


@pytest.fixture
def today():
    """The day of the test. It is the real one, which SQL of canned queries looks up; a file whose dates
    are written out has its own."""
    return clock.now().date()


@pytest.fixture(autouse=True)
def still_clock(today, monkeypatch):
    """Let no second and no midnight pass between what a test records and what a page says of it, and let
    hours before and after be of the same day."""
    at = datetime.combine(today, NOW)
    still = SimpleNamespace(now=lambda _zone: at, fromisoformat=datetime.fromisoformat)
    monkeypatch.setattr(clock, "datetime", still)


PATIENT_S = 300.0
LIMITS_S = {
    heartbeat: ("FRESH_FOR_S",),
    kept_connections: ("BUSY_TIMEOUT_S",),
    overview_reader: ("ROWS_TIME_S",),
    processes: ("WAIT_S",),
    query: ("DEADLINE_S", "PAGE_CPU_S", "PAGE_DEADLINE_S", "PLAIN_PAGE_CPU_S"),
    query_proxy: ("MAX_WAIT_S", "READING_AFTER_S", "RUNNING_S"),
    responses: ("PAGE_S",),
    search_reader: ("SEARCH_S", "COUNT_S", "HARD_LIMIT_S"),
}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let a machine that is slow, or stands still for a while, stop no query, and leave nothing out of a
    page. Tests of such a limit set it themselves. What is slow has the priority of the others, or else
    it has nearly nothing of a busy machine."""
    monkeypatch.setattr(processes, "SLOW_NICENESS", os.nice(0) + isolation.NICENESS)
    for module, names in LIMITS_S.items():
        for name in names:
            monkeypatch.setattr(module, name, PATIENT_S)
    for name in ("TOTALS_TIME_MS", "GROUPS_TIME_MS"):
        monkeypatch.setattr(sums, name, round(1000 * PATIENT_S))
    for name in ("facet_time_limit_ms", "sql_time_limit_ms"):
        monkeypatch.setitem(SETTINGS, name, round(1000 * PATIENT_S))


@pytest.fixture(scope="session")
def new_control_file(tmp_path_factory):
    """``control.db`` as after a first start. A copy takes less time than the migrations."""
    path = tmp_path_factory.mktemp("new") / "control.db"
    with ControlDatabase(path) as control:
        control.set_up()
    return path


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env(
        {"TAXIMETER_DATA_DIR": str(tmp_path / "data"), "TAXIMETER_BASE_URL": BASE_URL}
    )


@pytest.fixture(scope="session")
def query_server():
    server = QueryServer()
    yield server
    server.close()


@pytest.fixture
def queries(settings, query_server, monkeypatch):
    """Query processes, without the processes; the proxy's half of them is real."""
    with query_server.serving(traces_folder(settings.data_dir), monkeypatch):
        yield query_server.app


@pytest.fixture
def control(settings, new_control_file):
    settings.data_dir.mkdir(mode=0o700)
    shutil.copy(new_control_file, settings.control_path)
    with ControlDatabase(settings.control_path) as control:
        yield control


@pytest.fixture
def one_worker(monkeypatch):
    """One thread for ``control.db`` in each pool of the web process, where there are four: to start and end
    them all, each with its connection, took half of what a short test takes."""
    monkeypatch.setattr(workers, "COUNT", 1)


@pytest.fixture(scope="session")
def portal():
    """The event loop of the web processes that tests make, one after the other."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def app(settings, control, queries, one_worker, portal):
    """The web process, running: for people with browsers and ``TestClient``."""
    app = make_app(settings)
    app.state.portal = portal
    with portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        yield app


@asynccontextmanager
async def _serve(app):
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=BASE_URL, timeout=60
        ) as client,
    ):
        yield client


@pytest.fixture
async def client(settings, control, queries, one_worker):
    """The same in the loop of the test, for many requests at once."""
    async with _serve(make_app(settings)) as client:
        yield client


@pytest.fixture
def make_person(request, control, settings):
    """People who use the service. It is started when one of them opens a page."""

    def make(email, organization_id=None):
        def find_app():
            return request.getfixturevalue("app")

        return Someone(control, settings.data_dir, email, organization_id, find_app)

    return make


@pytest.fixture
def ann(make_person):
    return make_person("ann@example.org")


@pytest.fixture
def bob(make_person, ann):
    """A member of Ann's organisation, and no owner."""
    return make_person("bob@example.org", ann.organization_id)


@pytest.fixture
def cid(make_person):
    """A stranger to Ann."""
    return make_person("cid@example.org")


@pytest.fixture
def stranger(app):
    """A browser in which nobody is signed in."""
    return open_browser(app)
