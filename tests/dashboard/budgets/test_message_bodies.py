"""The bodies of messages to webhooks: JSON of ours, and what Slack and Teams display."""

import json
from dataclasses import replace

import pytest

from dashboard.budgets.message_bodies import MAX_CHARS, describe, write_body
from store.control import alerts
from store.control.budget_alerts import Alert

LINK = "https://meter.example/sessions/a?b=1&c=2"
ALERT = Alert(
    id="a",
    organization_id="org",
    proxy_endpoint_id="endpoint",
    slug="ci",
    period="day",
    starts_at="2026-01-02T00:00:00Z",
    resets_at="2026-01-03T00:00:00Z",
    limit_usd=50.0,
    spent_usd=50.31,
    percent=100,
    action="refuse",
    created_at="2026-01-02T03:04:05.678Z",
)
FIRED = alerts.Alert(
    id="f",
    organization_id="org",
    rule_id="r",
    occasion="s1",
    kind="session_cost",
    subject="Expensive session:",
    sentence="“Fix <!channel> & [a](https://b.example)” is at $6.10.",
    link="/sessions/s1",
    at="2026-01-02T03:04:05.678Z",
)


def read(alert, format_):
    return json.loads(write_body(alert, format_, LINK))


def test_a_plain_message_says_all_about_the_budget():
    document = read(ALERT, "plain")
    assert (document["type"], document["timestamp"]) == ("budget.reached", ALERT.created_at)
    assert document["data"] == {
        name: getattr(ALERT, name)
        for name in (
            "organization_id",
            "proxy_endpoint_id",
            "slug",
            "percent",
            "limit_usd",
            "spent_usd",
            "period",
            "action",
            "starts_at",
            "resets_at",
        )
    } | {"of": None}
    part = replace(ALERT, of_kind="project", of_value="shop", percent=92.5)
    document = read(part, "plain")
    assert document["type"] == "budget.warning"
    data = document["data"]
    assert (data["of"], data["percent"]) == ({"project": "shop"}, 92.5)


def test_a_plain_message_says_all_about_an_alert():
    document = read(FIRED, "plain")
    assert (document["type"], document["timestamp"]) == ("alert.session_cost", FIRED.at)
    assert document["data"] == {
        "organization_id": "org",
        "alert_id": "r",
        "kind": "session_cost",
        "occasion": "s1",
        "subject": FIRED.subject,
        "sentence": FIRED.sentence,
        "link": LINK,
    }
    assert read(replace(FIRED, is_test=True), "plain")["type"] == "alert.test"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            "The budget of ci is used up. $50.31 of $50.00 a day are spent; it begins anew at"
            " 2026-01-03 00:00 UTC. Calls are refused until then.",
        ),
        (
            {"percent": 92.5, "slug": None, "of_kind": "user", "of_value": "ann", "period": "week"},
            "The budget of user ann (the organisation) is used to 92.5%. $50.31 of $50.00 a week are"
            " spent; it begins anew at 2026-01-03 00:00 UTC.",
        ),
    ],
)
def test_a_budget_is_described_in_two_sentences(changes, words):
    assert " ".join(describe(replace(ALERT, **changes))) == words


def test_slack_gets_plain_text_in_a_block_and_an_escaped_one_beside_it():
    document = read(FIRED, "slack")
    text = f"{FIRED.subject} {FIRED.sentence}"
    section, context = document["blocks"]
    assert section["type"] == "section"
    assert section["text"] == {"type": "plain_text", "text": text, "emoji": False}
    assert document["text"] == text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    (link,) = context["elements"]
    assert link == {
        "type": "mrkdwn",
        "text": "<https://meter.example/sessions/a?b=1&amp;c=2|Open in Taximeter>",
    }


def test_teams_gets_a_card_whose_text_is_no_markup():
    document = read(FIRED, "teams")
    assert document["type"] == "message"
    (attachment,) = document["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["$schema"]) == (
        "AdaptiveCard",
        "http://adaptivecards.io/schemas/adaptive-card.json",
    )
    (block,) = card["body"]
    assert block["type"] == "RichTextBlock"
    assert {each["type"] for each in block["inlines"]} == {"TextRun"}
    assert "".join(each["text"] for each in block["inlines"]) == f"{FIRED.subject} {FIRED.sentence}"
    assert card["actions"] == [
        {"type": "Action.OpenUrl", "title": "Open in Taximeter", "url": LINK}
    ]


@pytest.mark.parametrize("format_", ["slack", "teams"])
def test_a_title_of_a_client_is_one_line_of_bounded_length(format_):
    hostile = replace(FIRED, sentence="a\r\nb\x1b[2J\u202e" + "x" * 10_000)
    text = write_body(hostile, format_, LINK).decode()
    assert "\\n" not in text
    assert "\u202e" not in text
    assert len(text) < 3 * MAX_CHARS + 2_000
