"""Signing in through GitHub and Google: ours in this process, theirs over real HTTP."""

import json
import logging
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from dashboard.sign_in import oauth, providers
from dashboard.sign_in.openid import OpenIdProvider
from store.control.sign_in import SignIn
from tests.dashboard.people import COOKIE, FLOW_COOKIE
from tests.dashboard.signing_in import BASE_URL, run_site
from tests.github_stand_in import CLIENT_ID, CLIENT_SECRET, Email, GitHub, Person
from tests.openid import Account, run_openid_provider

pytestmark = pytest.mark.served

ANN = "ann@example.org"
GOOGLE_SECRET = "the-secret-of-the-client-at-google"
HTTP = httpx.Client(
    trust_env=False,
    verify=False,  # noqa: S501 - there is no TLS
    limits=httpx.Limits(max_keepalive_connections=0),  # it is never closed
)


@pytest.fixture(scope="module")
def running_github():
    people = [
        Person(1, "ann", (Email(email="other@example.org", primary=False), Email(email=ANN))),
        Person(
            2,
            "eve",
            (Email(email=ANN, verified=False), Email(email="eve@example.org", primary=False)),
        ),
        Person(3, "nobody", ()),
        Person(4, "hidden", None),
        Person(5, "odd", (Email(email="odd"),)),
        Person(6, "LOUD", (Email(email=ANN.upper()),)),
    ]
    with GitHub(*people) as github:
        yield github


@pytest.fixture
def github(running_github):
    running_github.callback = f"{BASE_URL}/sign-in/github/callback"
    running_github.instead.clear()
    yield running_github
    assert running_github.faults == []


@pytest.fixture(scope="module")
def google():
    accounts = [
        Account("ann", ANN),
        Account("eve", ANN, verified=False),
        Account("any", ANN, verified=None),
    ]
    with run_openid_provider(*accounts) as provider:
        yield provider


def settings_for(github=None, google=None):
    found: dict[str, str] = {}
    if github is not None:
        found |= {
            "github_client_id": CLIENT_ID,
            "github_client_secret": CLIENT_SECRET,
            "github_url": github.url,
            "github_api_url": github.url,
        }
    if google is not None:
        found |= {
            "google_client_id": "our-client",
            "google_client_secret": GOOGLE_SECRET,
            "google_issuer": google.url,
        }
    return found


@pytest.fixture
def site(tmp_path, github, google):
    with run_site(tmp_path, **settings_for(github, google)) as site:
        yield site


def begin(site, provider, next_path=None):
    """Returns the address at the provider."""
    query = f"?{urlencode({'next': next_path})}" if next_path is not None else ""
    answer = site.client.get(f"/sign-in/{provider}{query}")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def allow(site, provider, address, who="ann"):
    """Returns the address that the provider sends the browser back to."""
    field = "login" if provider == "github" else "sub"
    data = {field: who} if who else {field: "", "action": "deny"}
    answer = HTTP.post(address, data=data)
    assert answer.is_redirect, answer.text
    return answer.headers["location"]


def come_back(site, location):
    assert location.startswith(site.base_url + "/")
    return site.client.get(location.removeprefix(site.base_url))


def go_through(site, provider, who="ann", next_path=None):
    return come_back(site, allow(site, provider, begin(site, provider, next_path), who))


BOTH = pytest.mark.parametrize("provider", ["github", "google"])


@BOTH
@pytest.mark.slow
def test_who_is_known_to_a_provider_is_signed_in(site, provider):
    wanted = "/traces/usage_log?model=x&_size=2"
    answer = go_through(site, provider, next_path=wanted)
    assert (answer.status_code, answer.headers["location"]) == (303, wanted)
    assert site.is_signed_in()


def test_one_address_is_one_user_whichever_way_they_come(site):
    SignIn(site.control).sign_in(ANN)  # by mail
    known = site.user_ids()
    for provider, who in (("github", "ann"), ("google", "ann"), ("github", "LOUD")):
        answer = go_through(site, provider, who)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert site.user_ids() == known


def test_the_page_offers_what_is_set_up(site):
    page = site.client.get("/sign-in?next=/traces/usage_log%3Fmodel%3Dx%26_size%3D2").text
    wanted = "/sign-in/{}?next=/traces/usage_log%3Fmodel%3Dx%26_size%3D2"
    assert f'href="{wanted.format("github")}">Continue with GitHub<' in page
    assert f'href="{wanted.format("google")}">Continue with Google<' in page


def test_what_is_not_set_up_is_not_there(tmp_path):
    with run_site(tmp_path) as site:
        assert "Continue with" not in site.client.get("/sign-in").text
        assert site.client.get("/sign-in/github").status_code == 404
        assert site.client.get("/sign-in/google/callback").status_code == 404


@BOTH
def test_a_flow_has_state_and_pkce_and_comes_back_to_the_address_people_use(site, provider):
    answer = site.client.get(f"/sign-in/{provider}", headers={"host": "localhost"})
    asked = {
        name: values[0]
        for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()
    }
    assert asked["redirect_uri"] == f"{BASE_URL}/sign-in/{provider}/callback"
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["state"]) >= 20
    assert ("nonce" in asked) == (provider == "google")
    assert "client_secret" not in asked
    other = parse_qs(urlsplit(begin(site, provider)).query)
    assert asked["state"] != other["state"][0]
    assert asked["code_challenge"] != other["code_challenge"][0]


def refused(site, answer, status=400):
    """The words of the page that says why nobody was signed in."""
    assert answer.status_code == status, answer.text
    assert "location" not in answer.headers
    assert not site.is_signed_in()
    found = re.search(r'role="alert"[^>]*>([^<]+)<', answer.text)
    assert found, answer.text
    return found[1]


@BOTH
def test_who_may_not_sign_up_is_told_so_and_gets_no_account(tmp_path, github, google, provider):
    with run_site(tmp_path, sign_up="invited", **settings_for(github, google)) as site:
        assert "an invitation" in refused(site, go_through(site, provider), 403)
        assert len(site.user_ids()) == 1, "the local user"


@BOTH
def test_a_sign_in_through_a_provider_is_logged_with_its_name(site, provider):
    go_through(site, provider)
    with site.control.reading() as db:
        (details,) = db.execute(
            "select details from audit_log where action = 'user.sign_in'"
        ).fetchone()
    assert json.loads(details) == {"by": provider, "client": "testclient"}


@pytest.mark.parametrize("who", ["eve", "nobody"])
def test_only_githubs_verified_primary_address_counts(site, who):
    assert "not verified" in refused(site, go_through(site, "github", who))


def test_addresses_that_github_hides_are_said(site):
    assert "sent no e-mail address" in refused(site, go_through(site, "github", "hidden"))


def test_an_address_that_is_none_is_said(site):
    assert "cannot be used" in refused(site, go_through(site, "github", "odd"))


@BOTH
def test_who_says_no_is_told_so(site, provider):
    answer = go_through(site, provider, who=None, next_path="/traces")
    assert "Access was denied" in refused(site, answer)
    assert f"/sign-in/{provider}?next=/traces" in answer.text, "and may try again"


@BOTH
def test_a_callback_in_another_browser_is_refused_also_where_another_sign_in_was_begun(
    site, provider
):
    location = allow(site, provider, begin(site, provider))
    site.client.cookies.clear()
    assert "not started in this browser" in refused(site, come_back(site, location))
    begin(site, provider)
    assert "not started in this browser" in refused(site, come_back(site, location))


@BOTH
def test_a_forged_flow_is_refused(site, provider):
    location = allow(site, provider, begin(site, provider))
    name = FLOW_COOKIE
    value = site.client.cookies[name]
    site.client.cookies.clear()
    forged = ("A" if value[0] != "A" else "B") + value[1:]
    answer = site.client.get(
        location.removeprefix(BASE_URL), headers={"cookie": f"{name}={forged}"}
    )
    assert "not started in this browser" in refused(site, answer)


@BOTH
@pytest.mark.parametrize("query", ["", "?code=x", "?state=x", "?code=x&state=", "?error="])
def test_a_callback_that_nobody_asked_for_is_refused(site, provider, query):
    refused(site, site.client.get(f"/sign-in/{provider}/callback{query}"))


@BOTH
def test_a_callback_works_once(site, provider):
    location = allow(site, provider, begin(site, provider))
    flow = site.client.cookies[FLOW_COOKIE]
    assert come_back(site, location).status_code == 303
    assert FLOW_COOKIE not in site.client.cookies
    site.client.cookies.clear()
    refused(site, come_back(site, location))
    cookie = {"cookie": f"taximeter-provider={flow}"}
    again = site.client.get(location.removeprefix(BASE_URL), headers=cookie)
    refused(site, again)


def test_a_callback_of_one_provider_is_none_of_the_other(site):
    location = allow(site, "google", begin(site, "google"))
    answer = come_back(site, location.replace("/google/", "/github/"))
    assert "not started in this browser" in refused(site, answer)


def _provider_of(site, name):
    route = next(r for r in site.client.app.routes if r.path == f"/sign-in/{name}")
    return route.endpoint.args[0]


class Example(OpenIdProvider):
    """A provider as somebody would add one: a name and the settings, no checks."""

    name = "example"
    title = "Example"

    def _read_client(self, settings):
        return settings.google_issuer, settings.google_client_id, settings.google_client_secret


@pytest.fixture
def example_site(tmp_path, google, monkeypatch):
    monkeypatch.setattr(providers, "configured", lambda settings: [Example(settings)])
    with run_site(tmp_path, **settings_for(google=google)) as site:
        yield site


def test_another_openid_provider_has_every_check_without_code_of_its_own(example_site, monkeypatch):
    assert go_through(example_site, "example", "any").status_code == 400
    unverified = refused(example_site, go_through(example_site, "example", "eve"))
    assert "Example has not verified your e-mail address" in unverified

    provider = _provider_of(example_site, "example")
    location = allow(example_site, "example", begin(example_site, "example"))
    with monkeypatch.context() as patched:
        patched.setattr(provider, "_client_id", "another-client")
        refused(example_site, come_back(example_site, location), 502)
    with monkeypatch.context() as patched:
        patched.setattr(provider, "_issuer", "https://id.example")
        refused(example_site, example_site.client.get("/sign-in/example"), 502)

    assert go_through(example_site, "example").status_code == 303
    assert example_site.is_signed_in()


@pytest.mark.parametrize("path", ["/login/oauth/access_token", "/user/emails"])
@pytest.mark.parametrize("status", [500, 503, 401])
def test_a_provider_in_trouble_is_said(site, github, path, status):
    location = allow(site, "github", begin(site, "github"))
    github.instead[path] = status
    answer = come_back(site, location)
    assert answer.status_code in (400, 502)
    assert "GitHub" in refused(site, answer, answer.status_code)


@pytest.mark.parametrize("path", ["/login/oauth/access_token", "/user/emails"])
def test_a_provider_that_is_silent_is_not_waited_for(site, github, path, monkeypatch):
    monkeypatch.setattr(oauth, "TIMEOUT_S", 0.2)
    location = allow(site, "github", begin(site, "github"))
    github.instead[path] = None
    assert "does not respond" in refused(site, come_back(site, location), 502)


@BOTH
def test_a_provider_that_is_not_there_is_said(tmp_path, provider):
    with GitHub() as gone:
        settings = settings_for(github=gone, google=gone)
    with run_site(tmp_path, **settings) as site:
        if provider == "google":
            assert "does not respond" in refused(site, site.client.get("/sign-in/google"), 502)
            return
        state = parse_qs(urlsplit(begin(site, "github")).query)["state"][0]
        answer = site.client.get(f"/sign-in/github/callback?code=x&state={state}")
        assert "does not respond" in refused(site, answer, 502)


def test_a_wrong_secret_is_said_and_logged_without_it(tmp_path, github, caplog):
    settings = settings_for(github=github) | {"github_client_secret": "not-the-secret"}
    with run_site(tmp_path, **settings) as site:
        assert "GitHub refused" in refused(site, go_through(site, "github"))
    assert "incorrect_client_credentials" in caplog.text
    assert "not-the-secret" not in caplog.text


def test_nothing_secret_is_logged_or_kept(site, github, google, caplog, tmp_path):
    caplog.set_level(logging.WARNING)
    for provider in ("github", "google"):
        location = allow(site, provider, begin(site, provider))
        assert come_back(site, location).status_code == 303
        come_back(site, location)
    secrets = [*github.secrets, CLIENT_SECRET, GOOGLE_SECRET]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in secrets:
        assert secret not in caplog.text
        assert secret.encode() not in kept


def test_who_signs_in_anew_ends_the_session_before(site):
    go_through(site, "github")
    old = site.client.cookies[COOKIE]
    go_through(site, "google")
    assert site.client.cookies[COOKIE] != old
    site.client.cookies.clear()
    site.client.cookies[COOKIE] = old
    assert not site.is_signed_in()


def test_under_https_both_cookies_are_bound_to_host_and_tls(tmp_path, github):
    base_url = "https://meter.example"
    github.callback = f"{base_url}/sign-in/github/callback"
    settings = settings_for(github=github) | {"base_url": base_url}
    with run_site(tmp_path, **settings) as site:
        answer = site.client.get("/sign-in/github")
        flow = answer.headers["set-cookie"]
        location = allow(site, "github", answer.headers["location"])
        cookies = come_back(site, location).headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if cookie.startswith("__Host-taximeter="))
    assert flow.startswith("__Host-taximeter-provider=")
    assert "max-age=600" in flow.lower()
    for cookie in (flow, session):
        parts = {part.strip().lower() for part in cookie.split(";")}
        assert {"secure", "httponly", "samesite=lax", "path=/"} <= parts


def test_a_flow_of_another_service_is_refused(tmp_path, site, github):
    with run_site(tmp_path / "other", **settings_for(github=github)) as other:
        location = allow(other, "github", begin(other, "github"))
        cookie = {"cookie": f"{FLOW_COOKIE}={other.client.cookies[FLOW_COOKIE]}"}
    answer = site.client.get(location.removeprefix(BASE_URL), headers=cookie)
    assert "not started in this browser" in refused(site, answer)


def test_the_cookie_of_a_flow_is_set_nowhere_else(site):
    assert "set-cookie" not in site.client.get("/sign-in").headers
