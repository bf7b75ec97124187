"""What we write to people. The link stands on a line of its own."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from store.control.invitations import LIFE, Invitation
from store.control.sign_in import LINK_LIFE

_texts = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates" / "mail"),
    autoescape=False,  # noqa: S701 - plain text
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def sign_in_mail(link: str) -> tuple[str, str]:
    """Subject and text."""
    minutes = int(LINK_LIFE.total_seconds() // 60)
    text = _texts.get_template("sign_in.txt").render(link=link, minutes=minutes)
    return "Sign in to Taximeter", text


def invitation_mail(invitation: Invitation, link: str) -> tuple[str, str]:
    """Subject and text. Names in it are what people typed, so each is kept to one line."""
    organization = one_line(invitation.organization_name)
    text = _texts.get_template("invitation.txt").render(
        invitation=invitation, organization=organization, link=link, days=LIFE.days
    )
    return f"Join {organization} on Taximeter", text


def one_line(text: str) -> str:
    """Whatever would begin another line, or not be seen, is a space."""
    return "".join(c if c.isprintable() else " " for c in text)
