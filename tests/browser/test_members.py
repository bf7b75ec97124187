"""Two people in one organisation: invited by mail, and removed."""

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.mailbox import link_in, text_of
from tests.proxy_endpoints import create_endpoint

OWNER, GUEST = "host@example.org", "guest@example.org"


def invite(visitor: Visitor, site: Site, email: str) -> str:
    """Invite somebody on the page that is open, and return the link of the mail that comes."""
    visitor.follow("Invite", "link")
    visitor.fill("E-mail address", email)
    visitor.follow("Invite", "button")
    visitor.see("The invitation was sent by mail.")
    mail = site.mailbox.wait_for(email)
    assert f"{OWNER} invites you to join" in text_of(mail)
    return link_in(mail)


def test_who_is_invited_sees_the_calls_until_they_are_removed(new_browser, site):
    owner, guest = new_browser(), new_browser()
    site.sign_in(owner, OWNER)
    ((_, organization_id),) = site.homes(OWNER)
    with site.control() as control:
        create_endpoint(control, organization_id, "Shared", "shared-cab")
    site.upstream.choose = None
    assert site.call(b'{"model": "claude-opus-5-5"}', "shared-cab").status == 200
    assert site.count_calls("shared-cab") == 1

    owner.open("/settings/people")
    withdrawn = invite(owner, site, "late@example.org")
    owner.follow("Withdraw from late@example.org", "button")
    owner.see("The invitation was withdrawn. Its link no longer works.")
    guest.open(withdrawn)
    guest.see("already used or has expired")

    guest.open(invite(owner, site, GUEST))
    (button,) = [name for name in guest.names("button") if name.startswith("Join ")]
    guest.follow(button, "button")
    assert organization_id in {organization for _, organization in site.homes(GUEST)}
    guest.open("/traces/usage")
    guest.see("shared-cab")
    guest.follow("Settings", "link")
    guest.follow("People & keys", "link")
    guest.see("Only owners can invite and remove people.")

    owner.open("/settings/people")
    owner.follow(f"Remove {GUEST}", "link")
    owner.follow("Remove", "button")
    owner.see("The member was removed. Their sessions and keys were revoked.")
    guest.follow("Calls", "link")
    assert guest.path == "/sign-in"
