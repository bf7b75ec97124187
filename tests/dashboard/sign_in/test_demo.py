"""The button that signs in to the demo: only there, only from its own page, only at this machine."""

import pytest

from manage.client_address import CLIENT_HEADER
from runtime.settings import CLIENT_MARK_VARIABLE
from tests.dashboard.signing_in import run_site

pytestmark = pytest.mark.served

MARK = "the-mark-of-the-front-door"
HERE = "http://127.0.0.1:8080"


@pytest.fixture
def variables():
    return {"base_url": HERE}


@pytest.fixture
def is_demo():
    return True


@pytest.fixture
def site(tmp_path, monkeypatch, variables, is_demo):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, MARK)
    with run_site(tmp_path, is_demo=is_demo, **variables) as site:
        yield site


def open_demo(site, client="127.0.0.1", **headers):
    return site.post("/sign-in/demo", {"next": "/sessions"}, **{**come_from(client), **headers})


def come_from(client):
    return {CLIENT_HEADER.decode(): f"{MARK} {client}"}


def test_the_page_has_a_button_and_says_how_to_get_a_link(site):
    page = site.client.get("/sign-in?next=/sessions").text
    assert ">Open the demo</button>" in page
    assert 'action="/sign-in/demo"' in page
    assert 'name="next" value="/sessions"' in page
    assert "Pressing Enter in the terminal where the demo runs prints a link" in page
    assert "users link" not in page, "it acts on another data directory"


def test_a_link_that_was_used_leads_to_the_button(site):
    page = site.client.get("/sign-in/link?token=used")
    assert page.status_code == 410
    assert ">Open the demo</button>" in page.text


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "127.8.8.8"])
def test_the_button_signs_in_as_the_local_user_again_and_again(site, client):
    for _ in range(2):
        answer = open_demo(site, client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sessions")
        assert site.is_signed_in()
    assert "signed in (demo) from" in " ".join(site.client.get("/settings/security").text.split())


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"{HERE}0"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_no_other_site_can_press_the_button(site, headers):
    assert open_demo(site, **headers).status_code == 403
    assert not site.is_signed_in()


@pytest.mark.parametrize("client", ["203.0.113.9", "10.0.0.1", "::ffff:203.0.113.9", "x"])
def test_no_other_machine_can_press_it(site, client):
    answer = open_demo(site, client)
    assert answer.status_code == 403
    assert "A link that its terminal prints works elsewhere." in answer.text
    assert not site.is_signed_in()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "203.0.113.9"},
        {"forwarded": "for=203.0.113.9"},
        {"x-forwarded-host": "demo.example.org"},
    ],
)
def test_what_another_program_forwarded_is_not_from_this_machine(site, headers):
    assert open_demo(site, **headers).status_code == 403
    assert not site.is_signed_in()


def test_a_get_signs_nobody_in(site):
    assert site.client.get("/sign-in/demo", headers=come_from("127.0.0.1")).status_code == 405
    assert not site.is_signed_in()


@pytest.mark.parametrize("variables", [{"base_url": "https://demo.example.org"}])
def test_a_demo_that_others_can_reach_has_no_button(site):
    page = site.client.get("/sign-in").text
    assert "Open the demo" not in page
    assert "Pressing Enter in the terminal where the demo runs prints a link" in page
    assert open_demo(site).status_code == 403
    assert not site.is_signed_in()


@pytest.mark.parametrize("is_demo", [False])
def test_outside_of_the_demo_there_is_none_of_it(site, monkeypatch):
    assert open_demo(site).status_code == 404
    assert not site.is_signed_in()
    page = site.client.get("/sign-in").text
    assert "demo" not in page
    assert "users link" in page
