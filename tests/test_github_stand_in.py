"""The stand-in for GitHub, met by the library that signs people in and by hand."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from authlib.integrations.httpx_client import OAuth2Client

from tests.github_stand_in import CLIENT_ID, CLIENT_SECRET, CODE_LIFE_S, Email, GitHub, Person

CALLBACK = "http://127.0.0.1:8080/sign-in/github/callback"
VERIFIER = "a-verifier-of-at-least-forty-three-characters-0123"
ANN = Person(
    1, "ann", (Email(email="ann@example.org"), Email(email="old@example.org", primary=False))
)
HTTP = httpx.Client(
    trust_env=False,
    verify=False,  # noqa: S501 - there is no TLS, and reading certificates takes longest
    limits=httpx.Limits(max_keepalive_connections=0),  # it is never closed
)
BOB = Person(2, "bob", None)


@pytest.fixture(scope="module")
def running():
    with GitHub(ANN, BOB, callback=CALLBACK) as github:
        yield github


@pytest.fixture
def github(running):
    running.instead.clear()
    running.seen.clear()
    running.faults.clear()
    running.at_once = "ann"
    return running


@pytest.fixture
def client(github):
    with OAuth2Client(
        CLIENT_ID,
        CLIENT_SECRET,
        token_endpoint_auth_method="client_secret_post",  # the only one GitHub documents
        scope="user:email",
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
        trust_env=False,
        verify=False,
    ) as client:
        yield client


def authorize(client: OAuth2Client, github: GitHub, **changes: str | None) -> httpx.Response:
    """Return the response to a browser that is sent there."""
    url, _state = client.create_authorization_url(
        f"{github.url}/login/oauth/authorize", code_verifier=VERIFIER
    )
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()} | changes
    query = {name: value for name, value in query.items() if value is not None}
    return HTTP.get(f"{github.url}/login/oauth/authorize", params=query)


def fetch_token(client: OAuth2Client, github: GitHub, answer: httpx.Response) -> dict[str, str]:
    return dict(
        client.fetch_token(
            f"{github.url}/login/oauth/access_token",
            authorization_response=answer.headers["location"],
            code_verifier=VERIFIER,
            headers={"accept": "application/json"},
        )
    )


def exchange(github: GitHub, answer: httpx.Response, **changes: str) -> httpx.Response:
    code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
    form = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
    }
    return HTTP.post(f"{github.url}/login/oauth/access_token", data=form | changes)


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_the_library_signs_somebody_in(client, github, prefix):
    token = fetch_token(client, github, authorize(client, github))
    assert token["scope"] == "user:email"
    assert client.get(f"{github.url}{prefix}/user").json()["id"] == 1
    emails = client.get(f"{github.url}{prefix}/user/emails")
    assert emails.headers["x-accepted-oauth-scopes"] == "user, user:email"
    assert emails.json()[0] == {
        "email": "ann@example.org",
        "primary": True,
        "verified": True,
        "visibility": "private",
    }
    assert github.faults == []
    assert token["access_token"] in github.secrets


def test_a_person_is_asked_and_can_say_no(client, github):
    github.at_once = None
    page = authorize(client, github)
    assert "Authorize as ann" in page.text
    assert "Authorize as bob" in page.text
    no = HTTP.post(page.url, data={"login": ""})
    assert "error=access_denied" in no.headers["location"]
    yes = HTTP.post(page.url, data={"login": "ann"})
    assert fetch_token(client, github, yes)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"state": None}, "no state"),
        ({"state": "1"}, "no state"),
        ({"code_challenge": None}, "no code_challenge"),
        ({"code_challenge_method": "plain"}, "no code_challenge"),
        ({"response_type": "token"}, "response_type"),
    ],
)
def test_carelessness_is_refused_and_kept(client, github, changes, fault):
    assert authorize(client, github, **changes).status_code == 400
    assert fault in github.faults[0]


def test_an_unknown_application_finds_nothing(client, github):
    assert authorize(client, github, client_id="another").status_code == 404


def test_another_address_to_come_back_to_gets_no_code(client, github):
    target = authorize(client, github, redirect_uri="http://evil.example/").headers["location"]
    assert target.startswith(f"{CALLBACK}?error=redirect_uri_mismatch")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_secret": "wrong"}, "incorrect_client_credentials"),
        ({"client_id": "wrong"}, "incorrect_client_credentials"),
        ({"code": "forged"}, "bad_verification_code"),
        ({"code_verifier": "wrong"}, "bad_verification_code"),
        ({"code_verifier": ""}, "bad_verification_code"),
        ({"redirect_uri": "http://evil.example/"}, "redirect_uri_mismatch"),
    ],
)
def test_mistakes_come_with_status_200(client, github, changes, error):
    answer = exchange(github, authorize(client, github), **changes)
    assert answer.status_code == 200
    assert parse_qs(answer.text)["error"] == [error]


def test_a_code_works_once(client, github):
    coming_back = authorize(client, github)
    assert "access_token=gho_" in exchange(github, coming_back).text
    assert "error=bad_verification_code" in exchange(github, coming_back).text


def test_a_code_is_soon_too_old(client, github, monkeypatch):
    coming_back = authorize(client, github)
    later = github.now() + CODE_LIFE_S + 1
    monkeypatch.setattr(github, "now", lambda: later)
    assert "error=bad_verification_code" in exchange(github, coming_back).text


def test_addresses_are_hidden_without_the_scope_or_the_right(client, github):
    fetch_token(client, github, authorize(client, github, scope="read:org"))
    assert client.get(f"{github.url}/user").status_code == 200
    assert client.get(f"{github.url}/user/emails").status_code == 404
    github.at_once = "bob"
    fetch_token(client, github, authorize(client, github))
    assert client.get(f"{github.url}/user/emails").status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer gho_forged"}, 401),
        ({"authorization": "Basic gho_forged"}, 401),
        ({"user-agent": ""}, 403),
    ],
)
def test_the_api_wants_a_token_and_a_user_agent(github, headers, status):
    assert HTTP.get(f"{github.url}/user", headers=headers).status_code == status


def test_a_revoked_token_is_bad(client, github):
    fetch_token(client, github, authorize(client, github))
    github.revoke_tokens()
    assert client.get(f"{github.url}/user").status_code == 401


def test_it_can_fail_and_it_can_say_nothing(github):
    github.instead["/user/emails"] = 500
    assert HTTP.get(f"{github.url}/user/emails").status_code == 500
    github.instead["/user/emails"] = None
    with pytest.raises(httpx.ReadTimeout):
        HTTP.get(f"{github.url}/user/emails", timeout=0.1)
    assert [seen.path for seen in github.seen][-2:] == ["/user/emails"] * 2
