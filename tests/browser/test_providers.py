"""Signing in with GitHub and Google in a browser, by way of the provider's own page.

What else can come back from a provider is for ``tests/dashboard/sign_in/test_providers.py``.
"""

import pytest

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.github_stand_in import Email, Person
from tests.openid import DENY, Account


def know(site: Site, provider: str, login: str, email: str) -> None:
    """Give somebody an account at the provider."""
    if provider == "GitHub":
        addresses = Email(email=email), Email(email=f"other-{email}", primary=False)
        site.github.people[login] = Person(len(site.github.people) + 1, login, addresses)
    else:
        site.google.change(Account(login, email))


def choose(visitor: Visitor, provider: str, login: str) -> None:
    """Sign in on the provider's page."""
    if provider == "GitHub":
        visitor.follow(f"Authorize as {login}", "button")
    else:
        visitor.fill("Subject", login)
        visitor.follow("Authorize", "button")


@pytest.mark.parametrize("provider", ["GitHub", "Google"])
def test_who_changes_their_mind_twice_lands_where_they_wanted_to_go(browser, site, provider):
    email = f"new-at-{provider.lower()}@example.org"
    know(site, provider, "new", email)
    browser.open("/settings/people?done=nothing")
    browser.follow(f"Continue with {provider}", "link")
    assert not browser.address.startswith(site.url)
    browser.follow("Cancel" if provider == "GitHub" else DENY, "button")
    browser.see(f"Access was denied at {provider}.")
    assert site.cookie not in browser.cookies()
    browser.follow(f"Continue with {provider}", "link")
    choose(browser, provider, "new")
    assert browser.address == f"{site.url}/settings/people?done=nothing"
    browser.see(email)
    assert len(site.homes(email)) == 1
    assert browser.cookies().keys() == {site.cookie}
