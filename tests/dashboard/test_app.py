from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from dashboard.visitors import cookie_name
from manage.server import make_app
from runtime.errors import ForbiddenError
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from tests.dashboard.people import BASE_URL, HERE


@pytest.fixture
def client(app):
    return TestClient(app, base_url=BASE_URL, follow_redirects=False)


@pytest.fixture
def token(control):
    user_id = control.find_user(None)
    assert user_id is not None
    return SignIn(control).make_link(user_id)


@pytest.fixture
def signed_in(client, token):
    client.post("/sign-in/link", data={"token": token}, headers=HERE)
    return client


@pytest.mark.parametrize("token", ["", "forged", "x" * 5000, "\x00", "'--"])
def test_a_forged_link_signs_nobody_in(client, token):
    assert client.get("/sign-in/link", params={"token": token}).status_code == 410
    answer = client.post("/sign-in/link", data={"token": token}, headers=HERE)
    assert answer.status_code in (400, 410)
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_a_page_that_takes_too_much_memory_is_503(signed_in, monkeypatch, caplog, accept, error):
    def read(*_arguments, **_more):
        raise error

    monkeypatch.setattr("dashboard.search.arguments.parse_query", read)
    answer = signed_in.get("/search?q=x", headers={"accept": accept})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "3"
    assert "The service is short of memory." in answer.text
    assert "TAXIMETER_WEB_MEMORY" in caplog.text
    assert signed_in.get("/").status_code == 200


STATUS_BY_ORIGIN: list[tuple[dict[str, str], int]] = [
    ({"origin": BASE_URL}, 303),
    ({"sec-fetch-site": "same-origin"}, 303),
    ({"sec-fetch-site": "none"}, 303),
    ({}, 403),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site", "origin": BASE_URL}, 403),
]


def test_what_changes_something_must_come_from_a_page_of_ours(client):
    for headers, status in STATUS_BY_ORIGIN:
        assert client.post("/sign-out", headers=headers).status_code == status, headers


STATUS_BY_HOST = {
    "meter.example:8080": 303,
    "meter.example": 303,
    "127.0.0.1:9999": 303,
    "localhost": 303,
    "[::1]:8080": 303,
    "evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "": 421,
    "[": 421,
}


def test_the_pages_answer_only_to_their_own_names(client):
    found = {host: client.get("/", headers={"host": host}).status_code for host in STATUS_BY_HOST}
    assert found == STATUS_BY_HOST


def test_livez_answers_to_any_name(client):
    assert client.get("/livez", headers={"host": "10.0.0.7"}).json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/style.css", "/nowhere"])
def test_every_page_carries_the_security_headers(client, path):
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


def test_services_on_two_ports_of_a_host_are_signed_in_at_once(tmp_path):
    jar: dict[str, str] = {}  # of one browser, which sends all of it to every port of a host
    with ExitStack() as stack:
        clients = []
        for port in (8080, 8081):
            client, token = start_at(f"http://meter.example:{port}", tmp_path / str(port))
            clients.append(stack.enter_context(client))
            client.cookies.update(jar)
            origin = {"origin": f"http://meter.example:{port}"}
            client.post("/sign-in/link", data={"token": token}, headers=origin)
            jar |= dict(client.cookies)
        for client in clients:
            client.cookies.update(jar)
            assert client.get("/settings/data").status_code == 200
    assert sorted(jar) == ["taximeter-8080", "taximeter-8081"]


def test_a_cookie_outside_https_has_the_port_in_its_name():
    assert cookie_name("http://meter.example") == "taximeter-80"
    assert cookie_name("http://[::1]:81", "x") == "x-81"
    assert cookie_name("https://meter.example:81", "x") == "__Host-x"


def start_at(address, folder):
    """Return a client of a new service, and a token that signs its local user in."""
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(folder), "TAXIMETER_BASE_URL": address})
    with ControlDatabase(settings.control_path) as control:
        control.set_up()
        user_id = control.find_user(None)
        assert user_id is not None
        token = SignIn(control).make_link(user_id)
    return TestClient(make_app(settings), base_url=address, follow_redirects=False), token


def test_who_is_signed_in_finds_the_way_back_from_a_page_that_is_not_there(signed_in):
    answer = signed_in.get("/nowhere")
    assert answer.status_code == 404
    assert 'href="/settings"' in answer.text


def test_who_is_not_sees_no_navigation(client):
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert 'href="/settings"' not in answer.text


def test_a_refusal_that_no_form_shows_is_a_page_with_its_status(signed_in, monkeypatch):
    def refuse(*_):
        raise ForbiddenError("you are no longer a member of this organisation")

    monkeypatch.setattr("store.control.management.Management.get_endpoint", refuse)
    answer = signed_in.get("/settings/endpoints/default")
    assert answer.status_code == 403
    assert "You are no longer a member of this organisation." in answer.text
    answer = signed_in.get("/settings/endpoints/default", headers={"accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
