"""The API of a service with two organisations of two people each."""

import pytest
from starlette.testclient import TestClient

from manage.server import make_app
from runtime.settings import CLIENT_MARK_VARIABLE, Settings
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.traces.paths import trace_path
from tests.manage.organizations import make_people

BASE_URL = "http://meter.example:8080"


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path), "TAXIMETER_BASE_URL": BASE_URL})


@pytest.fixture
def keys(settings):
    """A raw key for each of the people."""
    with ControlDatabase(settings.control_path) as control:
        management = Management(control, settings.data_dir)
        people = make_people(management, Users(control))
        yield {
            name: management.create_key(getattr(people, name), f"{name}'s")[1]
            for name in ("ann", "bob", "cid", "dee")
        }


@pytest.fixture
def traces_path(settings, keys):
    """The path of the traces of Ann's organisation."""
    with ControlDatabase(settings.control_path) as control:
        caller = Management(control, settings.data_dir).find_caller("ann@example.org")
    return trace_path(settings.data_dir, caller.organization_id)


@pytest.fixture
def client(settings, keys, monkeypatch):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, "mark")
    with TestClient(make_app(settings), base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def ask(client, keys):
    """Sends a request with the key of one of the people."""

    def ask(who, method, path, **more):
        headers = {"authorization": f"Bearer {keys[who]}"} | more.pop("headers", {})
        return client.request(method, f"/api{path}", headers=headers, **more)

    return ask


@pytest.fixture
def ann(ask):
    return lambda method, path, **more: ask("ann", method, path, **more)
