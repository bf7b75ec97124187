"""The provider, met by the library that signs people in."""

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from authlib.integrations.httpx_client import OAuth2Client

from tests.openid import Account, run_openid_provider

CALLBACK = "http://127.0.0.1:8080/sign-in/google/callback"
HTTP = httpx.Client(
    trust_env=False,
    verify=False,  # noqa: S501 - there is no TLS, and reading certificates takes longest
    limits=httpx.Limits(max_keepalive_connections=0),  # it is never closed
)
ANN = Account("ann", "ann@example.org")
EVE = Account("eve", "ann@example.org", verified=False)
ANY = Account("any", "any@example.org", verified=None)


@pytest.fixture(scope="module")
def provider():
    with run_openid_provider(ANN, EVE, ANY) as provider:
        yield provider


def claims_of(provider, subject: str) -> dict[str, object]:
    known = HTTP.get(provider.discovery_url).json()
    with OAuth2Client(
        "id",
        "secret",
        scope="openid email",
        redirect_uri=CALLBACK,
        trust_env=False,
        verify=False,
    ) as client:
        url, _ = client.create_authorization_url(known["authorization_endpoint"], nonce="n" * 20)
        answer = HTTP.post(url, data={"sub": subject})
        client.fetch_token(
            known["token_endpoint"], authorization_response=answer.headers["location"]
        )
        return dict(client.get(known["userinfo_endpoint"]).json())


def test_it_tells_who_somebody_is_and_whether_the_address_is_verified(provider):
    assert claims_of(provider, "ann") == {
        "sub": "ann",
        "email": "ann@example.org",
        "email_verified": True,
    }
    assert claims_of(provider, "eve")["email_verified"] is False
    assert "email_verified" not in claims_of(provider, "any")


def test_what_it_tells_can_change(provider):
    provider.change(Account("eve", "eve@example.org"))
    assert claims_of(provider, "eve")["email"] == "eve@example.org"


def test_its_page_has_a_button_for_everybody(provider):
    query = {
        "client_id": "id",
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid email",
        "nonce": "n" * 20,
        "state": "s" * 20,
    }
    page = HTTP.get(f"{provider.url}/oauth2/authorize", params=query)
    buttons = re.findall(r'aria-label="([^"]*)"', page.text)
    assert {ANN.button, EVE.button, ANY.button} <= set(buttons)
    denied = HTTP.post(page.url, data={"action": "deny"})
    assert parse_qs(urlsplit(denied.headers["location"]).query)["error"] == ["access_denied"]
