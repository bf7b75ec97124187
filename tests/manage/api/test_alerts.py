"""``/api/alerts``."""

import pytest

ALERT = {
    "kind": "session_cost",
    "threshold": 5,
    "channel": "webhook",
    "format": "slack",
    "url": "https://hooks.example.org/services/secret",
}


@pytest.fixture
def ask(ask):
    def ask_for(who, method, path, body=None):
        response = ask(who, method, path, json=body)
        return response.status_code, response.json()

    return ask_for


def test_an_alert_is_added_listed_tried_and_deleted(ask):
    assert ask("ann", "GET", "/alerts") == (
        200,
        {"items": [], "nextCursor": None, "hasMore": False},
    )
    status, rule = ask("ann", "POST", "/alerts", ALERT)
    assert status == 201
    assert rule | ALERT == rule
    assert (rule["last_at"], rule["last_delivered_at"], rule["last_error"]) == (None, None, None)
    assert ask("ann", "GET", "/alerts")[1]["items"] == [rule]
    assert ask("ann", "GET", f"/alerts/{rule['id']}") == (200, rule)
    assert ask("bob", "GET", "/alerts")[1]["items"][0]["url"] == "https://hooks.example.org/…"
    status, tried = ask("ann", "POST", f"/alerts/{rule['id']}/test")
    assert (status, tried["last_at"] is not None) == (200, True)
    assert ask("ann", "DELETE", f"/alerts/{rule['id']}") == (200, {"ok": True})
    assert ask("ann", "DELETE", f"/alerts/{rule['id']}")[0] == 404


def test_an_alert_goes_by_mail_unless_it_says_otherwise(ask):
    status, rule = ask("ann", "POST", "/alerts", {"kind": "window", "threshold": 0.9})
    assert status == 201
    assert (rule["channel"], rule["format"], rule["url"]) == ("mail", "plain", None)


def test_without_an_address_it_goes_to_the_webhook_of_the_organisation(ask):
    body = {"kind": "errors", "threshold": 20, "channel": "webhook", "format": "teams"}
    status, refusal = ask("ann", "POST", "/alerts", body)
    assert (status, refusal["error"]["field"]) == (400, "url")
    assert ask("ann", "PUT", "/budget-webhook", {"url": "https://hooks.example.org/x"})[0] == 200
    status, rule = ask("ann", "POST", "/alerts", body)
    assert (status, rule["url"]) == (201, None)


def test_an_alert_that_cannot_be_names_the_field(ask, subtests):
    for changes, field in (
        ({"kind": "hour_cost"}, "kind"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": "5"}, "threshold"),
        ({"kind": "window", "threshold": 90}, "threshold"),
        ({"kind": "errors", "threshold": 0.5}, "threshold"),
        ({"channel": "fax"}, "channel"),
        ({"channel": "mail"}, "format"),
        ({"channel": "mail", "format": "plain"}, "url"),
        ({"format": "discord"}, "format"),
        ({"url": "http://hooks.example.org"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"name": "x"}, "name"),
    ):
        with subtests.test(str(changes)):
            status, response = ask("ann", "POST", "/alerts", ALERT | changes)
            assert (status, response["error"]["field"]) == (400, field)


def test_the_webhook_of_budgets_has_a_format(ask):
    body = {"url": "https://hooks.example.org/x", "format": "slack"}
    assert ask("ann", "PUT", "/budget-webhook", body)[1]["format"] == "slack"
    assert ask("ann", "GET", "/budget-webhook")[1]["format"] == "slack"
