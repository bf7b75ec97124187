from dashboard.mail.texts import invitation_mail, sign_in_mail
from store.control.invitations import Invitation

LINK = "https://meter.example/sign-in/link?token=t"


def make_invitation(organization_name="Acme", invited_by: str | None = "eve@example.org"):
    return Invitation(
        id="i",
        organization_id="o",
        organization_name=organization_name,
        email="ann@example.org",
        invited_by=invited_by,
        created_at="2026-01-01T00:00:00.000Z",
        expires_at="2026-01-08T00:00:00.000Z",
    )


def test_a_link_stands_on_a_line_of_its_own():
    for _, text in (sign_in_mail(LINK), invitation_mail(make_invitation(), LINK)):
        assert text.splitlines().count(LINK) == 1
        assert text.endswith(".\n")


def test_an_invitation_says_who_invites_where_that_is_known():
    assert "eve@example.org invites you" in invitation_mail(make_invitation(), LINK)[1]
    assert "You are invited" in invitation_mail(make_invitation(invited_by=None), LINK)[1]
