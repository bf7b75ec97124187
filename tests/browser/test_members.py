"""Two people in one organisation: invited by mail, and removed."""

import json

from tests.browser.site import Site
from tests.browser.test_first_call import create_endpoint, create_key
from tests.browser.visitor import Visitor
from tests.mailbox import link_in, text_of

OWNER, GUEST = "host@example.org", "guest@example.org"


def invite(visitor: Visitor, site: Site, email: str) -> str:
    """The link of the mail that comes."""
    visitor.open("/settings")
    visitor.click("Invite somebody", "menu")
    visitor.fill("E-mail address", email)
    visitor.follow("Invite", "button")
    visitor.see("The invitation was sent by mail.")
    mail = site.mailbox.wait_for(email)
    assert f"{OWNER} invites you to join" in text_of(mail)
    return link_in(mail)


def test_who_is_invited_sees_the_calls_until_they_are_removed(new_browser, site):
    owner, guest = new_browser(), new_browser()
    site.sign_in(owner, OWNER)
    create_endpoint(owner, "Shared", "shared-cab")
    assert site.call(b'{"model": "claude-opus-5-5"}', "shared-cab").status == 200
    assert site.count_calls("shared-cab") == 1

    guest.open(invite(owner, site, GUEST))
    (button,) = [name for name in guest.names("button") if name.startswith("Join ")]
    guest.follow(button, "button")
    guest.open("/traces/usage")
    guest.see("shared-cab")
    assert {organization for _, organization in site.homes(OWNER)} <= {
        organization for _, organization in site.homes(GUEST)
    }
    key = create_key(guest, "guest's")
    assert b"shared-cab" in site.get("/traces/usage.json?_shape=array", key).body
    guest.open("/settings")
    guest.see("Only owners can invite and remove people.")

    owner.open("/settings")
    owner.follow(f"Remove {GUEST}", "link")
    owner.follow("Remove", "button")
    owner.see("The member was removed. Their sessions and keys were revoked.")
    guest.follow("Traces", "link")
    assert guest.path == "/sign-in"
    refused = site.get("/traces/usage.json", key)
    assert refused.status == 401
    assert json.loads(refused.body)["error"]


def test_an_invitation_that_was_taken_back_opens_nothing(new_browser, site):
    owner, late = new_browser(), new_browser()
    site.sign_in(owner, OWNER)
    link = invite(owner, site, "late@example.org")
    owner.follow("Withdraw from late@example.org", "button")
    owner.see("The invitation was withdrawn. Its link no longer works.")
    late.open(link)
    late.see("already used or has expired")
    assert site.homes("late@example.org") == []
