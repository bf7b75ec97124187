"""Attacks on signing in through a provider: tokens, documents, responses and callbacks that lie.

The provider is a function in this process, which responds to the requests that the service makes.
"""

import base64
import gzip
import json
import re
import time
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from dashboard.sign_in.oauth import MAX_RESPONSE_BYTES
from store.control import people
from tests.dashboard.people import COOKIE
from tests.dashboard.signing_in import run_site

pytestmark = pytest.mark.served

ISSUER = "https://id.example"
CLIENT_ID, CLIENT_SECRET = "our-client", "the-secret-of-our-client-with-32-characters"
ANN = "ann@example.org"
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ENDPOINTS = {
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/jwks",
}
DOCUMENT: dict[str, Any] = {
    "issuer": ISSUER,
    **ENDPOINTS,
    "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
}


def respond(content, status=200, headers=None):
    if isinstance(content, bytes):
        return httpx2.Response(
            status, content=content, headers=headers or {"content-type": "application/json"}
        )
    return httpx2.Response(status, json=content, headers=headers)


class Provider:
    """Google or GitHub. ``pages`` are what it responds to each path, or functions that say so."""

    def __init__(self):
        self.seen = []
        self.nonce = ""
        self.make_token = lambda claims: sign(claims)
        self.pages = {
            "/.well-known/openid-configuration": lambda: respond(DOCUMENT),
            "/jwks": lambda: respond(
                {"keys": [rsa().as_dict(private=False), EC.as_dict(private=False)]}
            ),
            "/token": lambda: respond(
                {"access_token": "a", "token_type": "Bearer", "id_token": self.token}
            ),
            "/login/oauth/access_token": lambda: respond(
                {"access_token": "a", "token_type": "bearer"}
            ),
            "/user/emails": lambda: respond([{"email": ANN, "primary": True, "verified": True}]),
        }

    @property
    def token(self):
        return self.make_token(make_claims(self.nonce))

    def handle(self, request):
        self.seen.append(request)
        return self.pages[request.url.path]()


def make_claims(nonce):
    now = int(time.time())
    return {
        "iss": ISSUER, "aud": CLIENT_ID, "sub": "1", "iat": now, "exp": now + 600, "nonce": nonce,
        "email": ANN, "email_verified": True,
    }  # fmt: skip


@cache
def rsa():
    return RSAKey.generate_key(2048, {"kid": "rsa"})


@cache
def other_rsa():
    return RSAKey.generate_key(2048, {"kid": "rsa"})


def sign(claims, key=None, alg="RS256", **header):
    """Sign whatever the claims are, as a library that checks nothing would."""
    key = key or rsa()
    algorithms = ["RS256", "ES256", "HS256", "none", "PS256"]
    protected = {"alg": alg, "kid": key.kid or "rsa"} | header
    registry = jws.JWSRegistry(algorithms=algorithms, strict_check_header=False)
    return jws.serialize_compact(protected, json.dumps(claims).encode(), key, registry=registry)


def unsigned(claims, alg="none", signature=""):
    parts = ({"alg": alg, "typ": "JWT", "kid": "rsa"}, claims)
    return ".".join([*(encode(json.dumps(part).encode()) for part in parts), signature])


def encode(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.fixture
def provider():
    return Provider()


@pytest.fixture(scope="module")
def running_site(tmp_path_factory):
    settings: Any = {
        "google_client_id": CLIENT_ID,
        "google_client_secret": CLIENT_SECRET,
        "google_issuer": ISSUER,
        "github_client_id": CLIENT_ID,
        "github_client_secret": CLIENT_SECRET,
    }
    with run_site(tmp_path_factory.mktemp("site"), **settings) as site:
        yield site


@pytest.fixture
def site(running_site, provider):
    """A service that knows nobody but the local user, and has met no provider."""
    for name in ("google", "github"):
        client = find_client(running_site, name)
        client.client_kwargs["transport"] = httpx2.MockTransport(provider.handle)
        client.server_metadata.clear()
    yield running_site
    running_site.client.cookies.clear()
    with running_site.control.transaction() as db:
        for email, user_id in running_site.user_ids().items():
            if email is not None:
                people.delete_user(db, user_id)


def find_client(site, name):
    """Return Authlib's client for a provider."""
    (route,) = [each for each in site.client.app.routes if each.path == f"/sign-in/{name}"]
    return route.endpoint.args[0]._app


def begin(site, provider, name="google"):
    """Begin a sign-in; return what the browser is sent to the provider with."""
    response = site.client.get(f"/sign-in/{name}")
    assert response.status_code == 303, response.text
    asked = {n: v[0] for n, v in parse_qs(urlsplit(response.headers["location"]).query).items()}
    provider.nonce = asked.get("nonce", "")
    return asked


def come_back(site, asked, name="google", **query):
    query = {"code": "c", "state": asked["state"]} | query
    return site.client.get(f"/sign-in/{name}/callback?{urlencode(query, doseq=True)}")


def go_through(site, provider, name="google"):
    return come_back(site, begin(site, provider, name), name)


def refuse(site, response, *statuses):
    assert response.status_code in (statuses or (400, 502)), response.text
    assert "location" not in response.headers
    assert not site.is_signed_in()
    assert site.user_ids().keys() == {None}, "nobody but the local user"
    (words,) = re.findall(r'role="alert"[^>]*>([^<]+)<', response.text)
    return words


def test_an_honest_provider_signs_in(site, provider):
    for name in ("google", "github"):
        assert go_through(site, provider, name).status_code == 303
    assert site.is_signed_in()
    assert {request.headers["accept-encoding"] for request in provider.seen} == {"identity"}
    named = find_client(site, "google").server_metadata["id_token_signing_alg_values_supported"]
    assert named == ["RS256", "ES256"], "none for which our secret, or nothing, is the key"


NOW = int(time.time())
CLAIMS = {
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "a list of issuers": {"iss": [ISSUER]},
    "an issuer in other case": {"iss": "HTTPS://ID.EXAMPLE"},
    "an issuer below ours": {"iss": f"{ISSUER}/tenant"},
    "an issuer with a query": {"iss": f"{ISSUER}?x"},
    "the issuer without its scheme": {"iss": "id.example"},
    "another audience": {"aud": "another-client"},
    "no audience": {"aud": None},
    "an empty audience": {"aud": []},
    "an audience that begins as ours": {"aud": CLIENT_ID + "2"},
    "several audiences": {"aud": [CLIENT_ID, "another-client"]},
    "several audiences for another": {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
    "ours for another": {"azp": "another-client"},
    "an audience that is an object": {"aud": {CLIENT_ID: True}},
    "no subject": {"sub": None},
    "expired": {"exp": NOW - 3600},
    "never ending": {"exp": None},
    "an end that is a text": {"exp": "tomorrow"},
    "an end that is not a number": {"exp": float("nan")},
    "not yet valid": {"nbf": NOW + 3600},
    "issued in the future": {"iat": NOW + 3600},
    "issued at no time": {"iat": None},
    "another nonce": {"nonce": "x" * 20},
    "no nonce": {"nonce": None},
    "an empty nonce": {"nonce": ""},
    "a list of nonces": {"nonce": ["x"]},
    "the hash of another access token": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
    "no address": {"email": None},
    "an empty address": {"email": ""},
    "a list of addresses": {"email": [ANN]},
    "an object as address": {"email": {"x": ANN}},
    "a number as address": {"email": 1},
    "two addresses": {"email": f"{ANN},eve@example.org"},
    "an address with a name": {"email": f"Ann <{ANN}>"},
    "an address with a line end": {"email": f"{ANN}\r\nbcc: eve@example.org"},
    "an address that looks like another": {"email": "\uff41nn@example.org"},
    "an address with a Kelvin sign": {"email": "mi\u212ae@example.org"},
    "an address of a megabyte": {"email": "a" * 600_000 + "@example.org"},
    "not verified": {"email_verified": False},
    "not verified, as text": {"email_verified": "false"},
    "verified as TRUE": {"email_verified": "TRUE"},
    "verified as yes": {"email_verified": "yes"},
    "verified as one": {"email_verified": 1},
    "verified as a list": {"email_verified": [True]},
    "verified as null": {"email_verified": None},
    "verified another": {"email_verified": {ANN: True}},
}  # fmt: skip


def change(claims, changes):
    changed = claims | changes
    return {
        name: value for name, value in changed.items() if name not in changes or value is not None
    }


@pytest.mark.parametrize("name", CLAIMS)
def test_a_token_that_is_not_about_this_sign_in_is_refused(site, provider, name):
    provider.make_token = lambda claims: sign(change(claims, CLAIMS[name]))
    refuse(site, go_through(site, provider))


@pytest.mark.parametrize(
    "changes",
    [
        *({"email_verified": "true"}, {"aud": [CLIENT_ID]}, {"iss": f"{ISSUER}/"}, {"azp": CLIENT_ID}),
        *({"aud": [CLIENT_ID, "other"], "azp": CLIENT_ID}, {"exp": 4_102_444_800}, {"email": ANN.upper()}),
    ],
    ids=" ".join,  # of their names: an id with the time differs between processes that run tests
)  # fmt: skip
def test_a_token_that_is_right_in_another_way_is_taken(site, provider, changes):
    provider.make_token = lambda claims: sign(claims | changes)
    assert go_through(site, provider).status_code == 303
    assert site.user_ids().keys() == {None, ANN}


TOKENS = {
    "no signature": unsigned,
    "no signature, in other case": lambda claims: unsigned(claims, "nOnE"),
    "no signature, of our algorithm": lambda claims: unsigned(claims, "RS256"),
    "an algorithm of nobody": lambda claims: unsigned(claims, "XS256", "AAAA"),
    "an algorithm that is a list": lambda claims: unsigned(claims, ["RS256"], "AAAA"),
    "no algorithm": lambda claims: unsigned(claims, None, "AAAA"),
    "signed with our secret": lambda claims: sign(claims, OctKey.import_key(CLIENT_SECRET), "HS256"),
    "signed with the public key as a secret": lambda claims: sign(claims, OctKey.import_key(rsa().as_pem(private=False)), "HS256"),
    "signed with the key set as a secret": lambda claims: sign(claims, OctKey.import_key(json.dumps(rsa().as_dict(private=False))), "HS256"),
    "signed with another key of that name": lambda claims: sign(claims, other_rsa()),
    "signed with a key that it brings": lambda claims: sign(claims, other_rsa(), jwk=other_rsa().as_dict(private=False)),
    "signed with a key elsewhere": lambda claims: sign(claims, other_rsa(), jku="https://evil.example/jwks"),
    "signed with a key of no name": lambda claims: sign(claims, other_rsa(), kid="nobody"),
    "a name of a key that is a path": lambda claims: sign(claims, other_rsa(), kid="../../../../dev/null"),
    "the key of another algorithm": lambda claims: sign(claims, kid="ec"),
    "something critical": lambda claims: sign(claims, crit=["x"], x=1),
    "other claims than were signed": lambda claims: swap(sign(claims | {"email": "eve@example.org"}), claims),
    "two signatures": lambda claims: sign(claims) + ".AAAA",
    "an encrypted token": lambda claims: sign(claims) + ".AAAA.AAAA",
    "no token": lambda _: "",
    "null": lambda _: None,
    "a list": lambda claims: [sign(claims)],
    "claims that are a list": lambda claims: sign([claims]),
    "claims that are a text": lambda claims: sign("claims"),
    "claims without end": lambda claims: sign(claims | {"x": "y" * MAX_RESPONSE_BYTES}),
}  # fmt: skip


def swap(token, claims):
    head, _, signature = token.split(".")
    return f"{head}.{encode(json.dumps(claims).encode())}.{signature}"


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_that_the_issuer_has_not_signed_is_refused(site, provider, name):
    provider.make_token = TOKENS[name]
    refuse(site, go_through(site, provider))


def test_a_token_is_checked_by_the_library_as_the_tests_make_it():
    token = jwt.decode(sign({"a": 1}), rsa(), algorithms=["RS256"])
    assert token.claims == {"a": 1}


UNSAFE: list[Any] = [
    *("http://id.example/x", "//evil.example/x", "/x", "x", "", None, 1, [], "file:///etc/passwd"),
    *("javascript:alert(1)", "data:text/html,x", "https://", "https://user:p@id.example/", "ftp://id.example/"),
    *("https://id.example/\r\nx: y", "https://id.example/#x", "https://id.exämple/", "https://[::1/"),
]  # fmt: skip
REFUSED_DOCUMENTS: dict[str, Any] = {
    "of another issuer": {"issuer": "https://evil.example"},
    "of no issuer": {"issuer": None},
    "of a list of issuers": {"issuer": [ISSUER]},
    "of an issuer below": {"issuer": f"{ISSUER}/tenant"},
    **{
        f"{name}: {url}": {name: url}
        for name in ENDPOINTS
        for url in UNSAFE
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_DOCUMENTS)
def test_a_discovery_document_that_leads_elsewhere_is_refused(site, provider, name):
    wrong = {**DOCUMENT, **REFUSED_DOCUMENTS[name]}
    provider.pages["/.well-known/openid-configuration"] = lambda: respond(wrong)
    for _ in range(2):
        refuse(site, site.client.get("/sign-in/google"), 502)
    assert {request.url.path for request in provider.seen} == {"/.well-known/openid-configuration"}
    provider.pages["/.well-known/openid-configuration"] = lambda: respond(DOCUMENT)
    assert go_through(site, provider).status_code == 303, "and it is forgotten"


EXTRA: dict[str, Any] = {
    "verify": False, "proxy": "http://evil.example:3128", "trust_env": False, "cert": "/etc/passwd",
    "follow_redirects": True, "transport": None, "mounts": {}, "timeout": None, "base_url": "https://evil.example",
    "event_hooks": {}, "headers": {"x": "y"}, "cookies": {"a": "b"}, "limits": None, "http2": True,
    "scope": "email", "code_challenge_method": None, "redirect_uri": "https://evil.example",
    "client_id": "another-client", "client_secret": "x", "update_token": None, "response_type": "token",
    "token_endpoint_auth_method": "none", "revocation_endpoint_auth_method": "none", "leeway": 10**9,
    "token": {"access_token": "x"}, "token_placement": "uri", "grant_type": "password", "username": "x",
    "userinfo_endpoint": "https://evil.example", "jwks": {"keys": [EC.as_dict(private=False, kid="rsa")]},
    "_loaded_at": 0, "url": "https://evil.example", "state": "x", "nonce": "x", "code_verifier": "x",
}  # fmt: skip


@pytest.mark.parametrize("name", EXTRA)
def test_a_field_of_the_document_is_no_option_of_ours(site, provider, name):
    """Authlib would make each of these an option of its client."""
    extra = DOCUMENT | {name: EXTRA[name]}
    provider.pages["/.well-known/openid-configuration"] = lambda: respond(extra)
    asked = begin(site, provider)
    assert asked["client_id"] == CLIENT_ID
    assert asked["scope"] == "openid email"
    assert asked["code_challenge_method"] == "S256"
    assert asked["response_type"] == "code"
    assert asked["redirect_uri"].startswith(site.base_url)
    assert asked["state"] != "x" != asked["nonce"]
    assert come_back(site, asked).status_code == 303
    (form,) = [parse_qs(r.content.decode()) for r in provider.seen if r.url.path == "/token"]
    assert form["grant_type"] == ["authorization_code"]
    assert form["code_verifier"] != ["x"]
    assert all(request.url.host == "id.example" for request in provider.seen)
    assert "jwks" in {request.url.path.strip("/") for request in provider.seen}


@pytest.mark.parametrize(
    "named", [[], ["none"], ["HS256"], "HS256", None, ["HS256", "none", "RS256", 1, []]]
)
def test_no_document_makes_a_secret_a_key(site, provider, named):
    document = DOCUMENT | {"id_token_signing_alg_values_supported": named}
    provider.pages["/.well-known/openid-configuration"] = lambda: respond(document)
    provider.make_token = TOKENS["signed with our secret"]
    response = site.client.get("/sign-in/google")
    if response.status_code == 303:
        response = go_through(site, provider)
    refuse(site, response)


@cache
def bomb():
    return gzip.compress(bytes(10**7))


BIG = b"[" + b"1," * MAX_RESPONSE_BYTES + b"1]"
BODIES = {
    "no JSON": lambda: respond(b"<html>"),
    "nothing": lambda: respond(b""),
    "a list": lambda: respond([]),
    "a text": lambda: respond("token"),
    "null": lambda: respond(None),
    "nested deeply": lambda: respond(b"[" * 100_000),
    "too large": lambda: respond(BIG),
    "a bomb": lambda: respond(bomb(), headers={"content-encoding": "gzip"}),
    "compressed in an unknown way": lambda: respond(b"x", headers={"content-encoding": "x"}),
    "not UTF-8": lambda: respond(b'{"a": "\xff\xfe"}'),
    "a redirect": lambda: respond({}, 302, {"location": "https://evil.example/"}),
    "a permanent redirect": lambda: respond({}, 308, {"location": "http://169.254.169.254/"}),
    "an error": lambda: respond({"error": "invalid_grant", "error_description": f"<b>{CLIENT_SECRET}"}, 400),
    "an error in other words": lambda: respond({"error": "\x1b[2J<script>"}, 400),
    "an error that is a list": lambda: respond({"error": ["x"]}, 400),
    "a server error": lambda: respond({}, 500),
    "an authentication request": lambda: respond({}, 401, {"www-authenticate": "Basic"}),
}  # fmt: skip
STEPS = {
    "google": ("/.well-known/openid-configuration", "/jwks", "/token"),
    "github": ("/login/oauth/access_token", "/user/emails"),
}


@pytest.mark.parametrize(("name", "path"), [(n, p) for n, paths in STEPS.items() for p in paths])
@pytest.mark.parametrize("body", BODIES)
def test_a_response_of_another_kind_signs_nobody_in(site, provider, name, path, body, caplog):
    provider.pages[path] = BODIES[body]
    response = site.client.get(f"/sign-in/{name}")
    if response.status_code == 303:
        response = go_through(site, provider, name)
    words = refuse(site, response)
    for text in (words, caplog.text):
        assert CLIENT_SECRET not in text
        assert "script" not in text
        assert "\x1b" not in text
    assert {request.url.host for request in provider.seen} <= {
        "id.example",
        "github.com",
        "api.github.com",
    }


CLAIMS_OF_ANN = {"email": ANN, "email_verified": True}
TOKEN_RESPONSES: dict[str, Any] = {
    "no ID token": {},
    "claims beside it": {"userinfo": CLAIMS_OF_ANN},
    "a token of another kind": {"id_token": "", "token_type": "mac"},
    "an access token with a line end": {"access_token": "a\r\nx: y"},
    "no access token": {"access_token": None},
    "an access token that is a list": {"access_token": []},
    "expired": {"expires_at": 0, "expires_in": -1},
}


@pytest.mark.parametrize("name", TOKEN_RESPONSES)
def test_a_token_response_without_a_signed_token_signs_nobody_in(site, provider, name):
    content = {"access_token": "a", "token_type": "Bearer"} | TOKEN_RESPONSES[name]
    provider.pages["/token"] = lambda: respond(content)
    refuse(site, go_through(site, provider))


EMAILS = {
    "none": [],
    "an object": {"email": ANN, "primary": True, "verified": True},
    "a list of texts": [ANN],
    "a list of lists": [[ANN, True, True]],
    "not primary": [{"email": ANN, "primary": False, "verified": True}],
    "not verified": [{"email": ANN, "primary": True, "verified": False}],
    "primary by a number": [{"email": ANN, "primary": 1, "verified": True}],
    "verified by a text": [{"email": ANN, "primary": True, "verified": "true"}],
    "verified by a number": [{"email": ANN, "primary": True, "verified": 1}],
    "verified by nothing": [{"email": ANN, "primary": True}],
    "primary and verified apart": [
        {"email": "eve@example.org", "primary": True, "verified": False},
        {"email": ANN, "primary": False, "verified": True},
    ],
    "no address": [{"email": None, "primary": True, "verified": True}],
    "a list of addresses": [{"email": [ANN], "primary": True, "verified": True}],
    "an empty address": [{"email": "", "primary": True, "verified": True}],
    "two addresses": [{"email": f"{ANN},eve@example.org", "primary": True, "verified": True}],
    "an address with a name": [{"email": f"Ann <{ANN}>", "primary": True, "verified": True}],
    "an address that looks like another": [{"email": "ann\uff20example.org", "primary": True, "verified": True}],
    "an encoded word": [{"email": "=?utf-8?q?ann=40example.org?=@x.example", "primary": True, "verified": True}],
}  # fmt: skip


@pytest.mark.parametrize("name", EMAILS)
def test_only_the_verified_primary_address_of_github_counts(site, provider, name):
    provider.pages["/user/emails"] = lambda: respond(EMAILS[name])
    refuse(site, go_through(site, provider, "github"))


@pytest.mark.parametrize(
    "address",
    [
        "1+ann@users.noreply.github.com",
        "ANN@EXAMPLE.ORG",
        "\u0430nn@example.org",
        "ann+x@example.org",
    ],
)
def test_an_address_of_github_is_that_address_and_no_other(site, provider, address):
    """Also a hidden one, and one with a letter that looks like another."""
    provider.pages["/user/emails"] = lambda: respond(
        [{"email": address, "primary": True, "verified": True}]
    )
    assert go_through(site, provider, "github").status_code == 303
    assert site.user_ids().keys() == {None, address.lower()}


CALLBACKS: dict[str, Any] = {
    "no state": {"state": []},
    "an empty state": {"state": ""},
    "another state": {"state": "x" * 30},
    "a state that is a key of the cookie": {"state": "_state_google_"},
    "a state with a line end": {"state": "x\r\nset-cookie: a=b"},
    "an error": {"error": "server_error", "error_description": "<b>call 555</b>"},
    "an error with a code": {"error": "<script>alert(555)</script>"},
    "an empty error": {"error": ""},
    "an error in German": {"error": "zugriff_verweigert\r\n555"},
}


@pytest.mark.parametrize("name", CALLBACKS)
@pytest.mark.parametrize("via", ["google", "github"])
def test_a_callback_that_was_not_asked_for_signs_nobody_in(site, provider, name, via):
    asked = begin(site, provider, via)
    response = come_back(site, asked, via, **CALLBACKS[name])
    refuse(site, response, 400)
    assert "555" not in response.text
    assert not [r for r in provider.seen if "token" in r.url.path], "no code was sent"


@pytest.mark.parametrize("via", ["google", "github"])
def test_a_code_is_sent_once_with_its_own_verifier(site, provider, via):
    """A page that opens a callback twice, or with the code of another sign-in, sends no code again."""
    first, second = begin(site, provider, via), begin(site, provider, via)
    assert first["code_challenge"] != second["code_challenge"]
    assert come_back(site, second, via, code=["a", "b"]).status_code == 303
    sent = [parse_qs(r.content.decode()) for r in provider.seen if "token" in r.url.path]
    assert len(sent) == 1
    assert len(sent[0]["code"]) == 1
    again = come_back(site, second, via)
    assert again.status_code == 400
    assert len([r for r in provider.seen if "token" in r.url.path]) == 1


@pytest.mark.parametrize("via", ["google", "github"])
def test_a_session_cookie_that_was_planted_is_not_the_one_that_is_begun(site, provider, via):
    site.client.cookies.set(COOKIE, "planted", domain="meter.example")
    response = go_through(site, provider, via)
    (cookie,) = [
        each for each in response.headers.get_list("set-cookie") if each.startswith(f"{COOKIE}=")
    ]
    assert "planted" not in cookie


@pytest.mark.parametrize(
    "wanted",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example", "/%2f/evil.example", "/.//evil.example"),
        *("/\t/evil.example", "/\r\nlocation: //evil.example", "javascript:alert(1)", "\\\\evil.example"),
        *("/../../evil.example", "http:evil.example", "/@evil.example", "//evil.example@meter.example:8080/"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("via", ["google", "github"])
def test_nobody_is_sent_elsewhere_after_signing_in(site, provider, via, wanted):
    response = site.client.get(f"/sign-in/{via}?{urlencode({'next': wanted})}")
    asked = {n: v[0] for n, v in parse_qs(urlsplit(response.headers["location"]).query).items()}
    provider.nonce = asked.get("nonce", "")
    location = come_back(site, asked, via).headers["location"]
    assert re.match(r"/(?![/\\])", location)
    assert location.isprintable()
    resolved = httpx2.URL(site.base_url + "/sign-in/x/callback").join(location)
    assert (resolved.host, resolved.port) == ("meter.example", 8080)
