"""The bodies of messages to webhooks: JSON of our own, and messages for Slack and Microsoft Teams.

For Slack, text in blocks is sent as plain text: names of sessions and endpoints come from clients and
would otherwise be parsed as markup. Slack always parses the text beside the blocks (for notifications)
as markup, so it is escaped. A workflow of Teams gets a message with an adaptive card; the text is in its
text runs, which Teams never parses as markup, unlike text blocks.
"""

from typing import Any

import orjson

from metering.budget_shares import format_percent
from metering.formats import format_sum_cost
from runtime import clock
from runtime.safe_text import header_line
from store.control import budget_alerts
from store.control.budgets import Format
from store.control.deliveries import AnyAlert

MAX_CHARS = 2_000  # of a text; Slack takes 3,000
_CARD = "application/vnd.microsoft.card.adaptive"
_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
_CARD_VERSION = "1.4"


def write_body(alert: AnyAlert, format: Format, link: str) -> bytes:
    """Return the body of the message about an alert. ``link`` is the absolute address of the page that it
    concerns."""
    match format:
        case "slack":
            document = _write_for_slack(*describe(alert), link)
        case "teams":
            document = _write_for_teams(*describe(alert), link)
        case "plain":
            document = _write_plain(alert, link)
    return orjson.dumps(document)


def describe(alert: AnyAlert) -> tuple[str, str]:
    """Return the subject of an alert and a sentence about it, each on one line of ``MAX_CHARS`` at most."""
    if isinstance(alert, budget_alerts.Alert):
        whose = alert.slug or "the organisation"
        if alert.of is not None:
            whose = f"{alert.of} ({whose})"
        state = "is used up" if alert.is_reached else f"is used to {format_percent(alert.percent)}"
        spent, limit = (format_sum_cost(100 * each) for each in (alert.spent_usd, alert.limit_usd))
        resets_at = clock.format_minute(clock.parse_instant(alert.resets_at))
        subject = f"The budget of {whose} {state}."
        sentence = (
            f"{spent} of {limit} a {alert.period} are spent; it begins anew at {resets_at} UTC."
        )
        if alert.is_reached and alert.action == "refuse":
            sentence += " Calls are refused until then."
    else:
        subject, sentence = alert.subject, alert.sentence
    return header_line(subject)[:MAX_CHARS], header_line(sentence)[:MAX_CHARS]


def _write_plain(alert: AnyAlert, link: str) -> dict[str, Any]:
    if not isinstance(alert, budget_alerts.Alert):
        return {
            "type": "alert.test" if alert.is_test else f"alert.{alert.kind}",
            "timestamp": alert.at,
            "data": {
                "organization_id": alert.organization_id,
                "alert_id": alert.rule_id,
                "kind": alert.kind,
                "occasion": alert.occasion,
                "subject": alert.subject,
                "sentence": alert.sentence,
                "link": link,
            },
        }
    return {
        "type": "budget.reached" if alert.is_reached else "budget.warning",
        "timestamp": alert.created_at,
        "data": {
            "organization_id": alert.organization_id,
            "proxy_endpoint_id": alert.proxy_endpoint_id,
            "slug": alert.slug,
            "percent": alert.percent,
            "limit_usd": alert.limit_usd,
            "spent_usd": alert.spent_usd,
            "period": alert.period,
            "action": alert.action,
            "of": None if alert.of is None else {alert.of.kind: alert.of.value},
            "starts_at": alert.starts_at,
            "resets_at": alert.resets_at,
        },
    }


def _write_for_slack(subject: str, sentence: str, link: str) -> dict[str, Any]:
    return {
        "text": _escape(f"{subject} {sentence}"),
        "blocks": [
            {
                "type": "section",
                "text": {"type": "plain_text", "text": f"{subject} {sentence}", "emoji": False},
            },
            {
                "type": "context",
                "elements": [{"type": "mrkdwn", "text": f"<{_escape(link)}|Open in Taximeter>"}],
            },
        ],
    }


def _escape(text: str) -> str:
    """Escape the characters that begin markup in Slack, such as ``<!channel>``."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _write_for_teams(subject: str, sentence: str, link: str) -> dict[str, Any]:
    runs = [
        {"type": "TextRun", "text": f"{subject} ", "weight": "Bolder"},
        {"type": "TextRun", "text": sentence},
    ]
    card = {
        "$schema": _SCHEMA,
        "type": "AdaptiveCard",
        "version": _CARD_VERSION,
        "fallbackText": f"{subject} {sentence}",
        "body": [{"type": "RichTextBlock", "inlines": runs}],
        "actions": [{"type": "Action.OpenUrl", "title": "Open in Taximeter", "url": link}],
    }
    return {
        "type": "message",
        "attachments": [{"contentType": _CARD, "contentUrl": None, "content": card}],
    }
