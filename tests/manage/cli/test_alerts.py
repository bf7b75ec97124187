"""``taximeter alerts``."""

import json

import pytest

from manage.cli import alert_commands
from runtime import clock
from store.control import deliveries
from store.control.database import ControlDatabase

URL = "https://hooks.example.org/x"


def test_alerts_are_added_listed_and_deleted(run):
    assert run("alerts", "list").stdout.startswith("There are no alerts. ")
    created = run("alerts", "create", "day_cost", "50")
    assert created.exit_code == 0, created.output
    assert created.stdout.endswith(": when a day costs $50.00 or more, to the owners by mail.\n")
    created = run("alerts", "create", "window", "0.9", "--url", URL, "--format", "teams", "--json")
    rule = json.loads(created.stdout)
    assert (rule["channel"], rule["format"], rule["url"]) == ("webhook", "teams", URL)
    lines = run("alerts", "list").stdout.splitlines()
    assert "90% or more of a subscription's window is used" in lines[1]
    assert f"{URL} (teams)" in lines[1]
    assert lines[1].rstrip().endswith("never")
    assert run("alerts", "delete", rule["id"]).stdout == f"Deleted the alert {rule['id']}.\n"
    assert len(json.loads(run("alerts", "list", "--json").stdout)["items"]) == 1


def test_a_test_waits_for_its_result(run, data_dir, monkeypatch):
    rule = json.loads(run("alerts", "create", "errors", "5", "--url", URL, "--json").stdout)

    def deliver(_pause_s):
        """Deliver as the web process does, while the command waits."""
        with ControlDatabase(data_dir / "control.db") as control, control.transaction() as db:
            (due,) = deliveries.list_due(db, clock.now(), 10)
            deliveries.note_failed(db, due, "it responded with 404", clock.now())

    monkeypatch.setattr(alert_commands, "sleep", deliver)
    tried = run("alerts", "test", rule["id"])
    assert tried.stdout == f"The test to {URL}: it responded with 404.\n"
    assert tried.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("create", "day_cost", "0"), 2, "is not a number above 0"),
        (("create", "hour_cost", "5"), 2, "is not one of session_cost, errors, window, day_cost"),
        (("create", "window", "90"), 1, "write 0.9 for 90 %"),
        (("create", "errors", "5", "--channel", "webhook"), 1, "has no webhook"),
        (("create", "errors", "5", "--url", "http://a.example"), 1, "needs https"),
        (("delete", "x"), 1, "there is no alert 'x'"),
        (("test", "x"), 1, "there is no alert 'x'"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(run, arguments, status, message):
    result = run("alerts", *arguments)
    assert (result.exit_code, message in result.output) == (status, True), result.output


def test_a_mail_that_nobody_gets_is_not_tried(run):
    rule = json.loads(run("alerts", "create", "day_cost", "5", "--json").stdout)
    tried = run("alerts", "test", rule["id"])
    assert (tried.exit_code, "no owner of the organisation has a mail address" in tried.output) == (
        1,
        True,
    )
