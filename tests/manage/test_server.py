"""The web process behind the front door: which names it answers to, and what its redirects say."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from manage.server import make_app, make_config
from runtime.settings import Settings
from store.control.database import ControlDatabase


@pytest.fixture
def client(tmp_path) -> Iterator[TestClient]:
    """It sees http and a port of its own, whatever people use."""
    environment = {
        "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
        "TAXIMETER_BASE_URL": "https://meter.example.org",
    }
    settings = Settings.from_env(environment)
    with ControlDatabase(settings.control_path) as control:
        control.set_up()
    app = make_app(settings, lambda _line: None)
    with TestClient(app, base_url="http://127.0.0.1:54321", follow_redirects=False) as client:
        yield client


@pytest.mark.parametrize("host", ["meter.example.org", "METER.example.org:443", "localhost:8080"])
@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/settings/", "/settings"),
        ("/settings//?a=%2F&b=1", "/settings?a=%2F&b=1"),
        ("/sign-in/", "/sign-in"),
    ],
)
def test_a_slash_too_many_redirects_by_the_path_alone(client, host, address, target):
    answer = client.get(address, headers={"host": host})
    assert (answer.status_code, answer.headers["location"]) == (307, target)


@pytest.mark.parametrize("address", ["/nothing/", "//evil.example/", "//evil.example/settings/"])
def test_an_address_that_is_nowhere_is_not_found_with_slashes_too(client, address):
    answer = client.get(f"http://127.0.0.1:54321{address}", headers={"host": "localhost"})
    assert answer.status_code == 404
    assert "location" not in answer.headers


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    [
        "localhost:80/..",
        "localhost:99999",
        "localhost?",
        "x@localhost",
        "localhost#",
        "[::1",
        "evil.example",
        "",
    ],
)
@pytest.mark.parametrize("address", ["/settings/", "/", "/traces/", "/api/keys"])
def test_any_other_host_is_refused_and_told_nothing(client, host, address):
    answer = client.get(address, headers={"host": host})
    assert answer.status_code == 421
    assert "54321" not in answer.text + str(answer.headers)


def test_the_proxy_closes_idle_connections_first(tmp_path):
    """Otherwise a request would now and then go into a connection that the web process closes."""
    environment = {
        "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
        "TAXIMETER_REQUEST_IDLE_SECONDS": "7.5",
    }
    settings = Settings.from_env(environment)
    config = make_config(make_app(settings, lambda _line: None), settings)
    assert config.timeout_keep_alive > 2 * settings.request_idle_seconds
