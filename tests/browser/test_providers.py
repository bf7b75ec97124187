"""Signing in with GitHub and Google in a browser, by way of the provider's own page."""

import pytest

from tests.browser.site import SIGN_IN, Site
from tests.browser.visitor import Visitor
from tests.github_stand_in import Email, Person
from tests.openid import DENY, Account

ANN = "ann.of.all@example.org"
PROVIDERS = ("GitHub", "Google")
BOTH = pytest.mark.parametrize("provider", PROVIDERS)
FLOW_COOKIE = "taximeter-provider"


def know(site: Site, provider: str, login: str, email: str, *, verified: bool = True) -> None:
    """Somebody has an account there."""
    if provider == "GitHub":
        addresses = (
            Email(email=email, verified=verified),
            Email(email=f"other-{email}", primary=False),
        )
        site.github.people[login] = Person(len(site.github.people) + 1, login, addresses)
    else:
        site.google.change(Account(login, email, verified))


def choose(visitor: Visitor, provider: str, login: str) -> None:
    """On the provider's page."""
    if provider == "GitHub":
        visitor.follow(f"Authorize as {login}", "button")
    else:
        visitor.fill("Subject", login)
        visitor.follow("Authorize", "button")


def go_to(visitor: Visitor, provider: str, path: str = "/") -> None:
    """To the provider's page, from the page that asks who one is."""
    visitor.open(path)
    visitor.follow(f"Continue with {provider}", "link")
    assert not visitor.address.startswith(visitor.base_url)


def assert_signed_out(visitor: Visitor) -> None:
    assert "taximeter" not in visitor.cookies()
    visitor.open("/")
    assert visitor.path == "/sign-in"


@BOTH
def test_who_comes_from_a_provider_lands_where_they_wanted_to_go(browser, site, provider):
    email = f"new-at-{provider.lower()}@example.org"
    know(site, provider, "new", email)
    go_to(browser, provider, "/settings?done=nothing")
    choose(browser, provider, "new")
    assert browser.address == f"{site.url}/settings?done=nothing"
    browser.see(email)
    assert len(site.homes(email)) == 1
    assert FLOW_COOKIE not in browser.cookies()


def test_one_address_is_one_user_whichever_way_they_come(new_browser, site):
    by_mail = new_browser()
    by_mail.open("/sign-in")
    by_mail.open(site.ask_for_mail(by_mail, ANN))
    by_mail.follow(SIGN_IN, "button")
    home = site.homes(ANN)
    assert len(home) == 1
    for provider in PROVIDERS:
        know(site, provider, "ann", ANN.upper())
        visitor = new_browser()
        go_to(visitor, provider, "/sign-in")
        choose(visitor, provider, "ann")
        visitor.see(ANN)
    assert site.homes(ANN) == home
    by_mail.open("/settings")
    by_mail.see("You are signed in in 3 browsers")


@BOTH
def test_an_address_that_the_provider_has_not_verified_is_nobodys(browser, site, provider):
    email = f"unverified-at-{provider.lower()}@example.org"
    know(site, provider, "mallory", email, verified=False)
    go_to(browser, provider, "/sign-in")
    choose(browser, provider, "mallory")
    browser.see("verified")
    assert browser.heading == "Sign in"
    assert site.homes(email) == []
    assert_signed_out(browser)


@BOTH
def test_who_changes_their_mind_at_the_provider_is_told_so(browser, provider):
    go_to(browser, provider, "/settings")
    browser.follow("Cancel" if provider == "GitHub" else DENY, "button")
    browser.see(f"Access was denied at {provider}.")
    again = browser.find(f"Continue with {provider}").get_attribute("href")
    assert again is not None
    assert again.endswith("?next=/settings")
    assert_signed_out(browser)


@BOTH
@pytest.mark.parametrize("case", ["tampered state", "no cookie", "another browser"])
def test_a_sign_in_that_was_not_begun_here_is_refused(browser, new_browser, site, provider, case):
    know(site, provider, "victim", "victim@example.org")
    go_to(browser, provider, "/sign-in")
    asked = browser.address
    if case == "tampered state":
        browser.open(asked.replace("state=", "state=forged"))
    elif case == "no cookie":
        browser.cdp("Network.clearBrowserCookies")
        browser.open(asked)
    else:
        browser = new_browser()
        go_to(browser, provider, "/sign-in")
        browser.open(asked)
    choose(browser, provider, "victim")
    browser.see(
        f"This sign-in was not started in this browser, or it has expired. Sign in with {provider} again."
    )
    assert site.homes("victim@example.org") == []
    assert_signed_out(browser)


@BOTH
def test_a_callback_works_once(browser, site, provider):
    know(site, provider, "once", "once@example.org")
    go_to(browser, provider, "/sign-in")
    choose(browser, provider, "once")
    browser.see("once@example.org")
    browser.open(f"/sign-in/{provider.lower()}/callback?code=x&state=y")
    browser.see("was not started in this browser")
