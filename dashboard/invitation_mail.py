"""What the mail with an invitation says."""

from store.invitations import Invitation


def invitation_mail(invitation: Invitation, link: str) -> tuple[str, str]:
    """Subject and text; the link stands on a line of its own."""
    inviter = invitation.invited_by or "The operator of a Taximeter"
    return f"Invitation to {invitation.organization_name} on Taximeter", "\n".join(
        [
            f"{inviter} invites you into {invitation.organization_name}.",
            "",
            "Taximeter keeps what calls of language models cost, and their text. Who joins",
            "sees all calls of this organisation. To join, open this link:",
            "",
            link,
            "",
            f"It works once, until {invitation.expires_at[:10]}, and signs in as {invitation.email}:",
            "do not pass it on. If you did not expect this, do nothing.",
            "",
        ]
    )
