"""The texts of mails, each with its link on a line of its own."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from metering.budget_shares import format_percent
from metering.formats import format_cents
from runtime import clock
from runtime.safe_text import header_line
from store.control import alerts
from store.control.budget_alerts import Alert
from store.control.invitations import LIFE, Invitation
from store.control.sign_in_links import LINK_LIFE

_texts = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates" / "mail"),
    autoescape=False,  # noqa: S701 - plain text
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def sign_in_mail(link: str) -> tuple[str, str]:
    """Return subject and text of a mail with a sign-in link."""
    minutes = int(LINK_LIFE.total_seconds() // 60)
    text = _texts.get_template("sign_in.txt").render(link=link, minutes=minutes)
    return "Sign in to Taximeter", text


def invitation_mail(invitation: Invitation, link: str) -> tuple[str, str]:
    """Return subject and text of an invitation. Names in it are input of people, so each is kept to one
    line."""
    organization = header_line(invitation.organization_name)
    text = _texts.get_template("invitation.txt").render(
        invitation=invitation, organization=organization, link=link, days=LIFE.days
    )
    return f"Join {organization} on Taximeter", text


def budget_mail(alert: Alert, link: str) -> tuple[str, str]:
    """Return subject and text of a mail about a budget that is used up, or nearly."""
    whose = f"{header_line(alert.slug)}" if alert.slug is not None else "your organisation"
    if alert.of is not None:
        whose += f", {alert.of},"
    text = _texts.get_template("budget.txt").render(
        alert=alert,
        whose=whose,
        limit=format_cents(alert.limit_usd * 100),
        spent=format_cents(alert.spent_usd * 100),
        resets_at=clock.format_minute(clock.parse_instant(alert.resets_at)),
        link=link,
    )
    used = "is used up" if alert.is_reached else f"is used to {format_percent(alert.percent)}"
    return f"The {_PERIODS[alert.period]} budget of {whose} {used}", text


def alert_mail(alert: alerts.Alert, link: str) -> tuple[str, str]:
    """Return subject and text of a mail about an alert. Its texts contain names that clients chose, so
    each is kept to one line."""
    subject, sentence = header_line(alert.subject), header_line(alert.sentence)
    text = _texts.get_template("alert.txt").render(subject=subject, sentence=sentence, link=link)
    return f"{subject} {sentence}", text


_PERIODS = {"day": "daily", "week": "weekly", "month": "monthly"}
