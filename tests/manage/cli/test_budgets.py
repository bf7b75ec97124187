import json
from decimal import Decimal

import pytest

from runtime import clock
from tests.store.traffic import make_entry


def test_budgets_are_set_listed_and_deleted(run, traces):
    now = clock.format_ms(clock.now())
    traces.insert([make_entry(created_at=now, cost_cents=Decimal(1250))])
    created = run("budgets", "set", "default", "--day", "50", "--refuse")
    assert created.exit_code == 0, created.output
    assert "Set the budget of default: $50.00 a day, at 100 % calls are refused;" in created.stdout
    created = run("budgets", "set", "--organization", "--month", "25")
    assert "$25.00 a month, at 100 % calls go on;" in created.stdout
    lines = run("budgets", "list").stdout.splitlines()
    assert lines[1].split()[:7] == [
        "(organisation)",
        "$25.00",
        "a",
        "month",
        "$12.50",
        "50%",
        "warn",
    ]
    assert lines[2].split()[:7] == ["default", "$50.00", "a", "day", "$0", "0%", "refuse"]
    items = json.loads(run("budgets", "list", "--json").stdout)["items"]
    assert [each["slug"] for each in items] == [None, "default"]
    assert "Deleted the budget of default." in run("budgets", "delete", "default").stdout
    run("budgets", "delete", "--organization")
    assert json.loads(run("budgets", "list", "--json").stdout)["items"] == []
    assert run("budgets", "list").stdout.startswith("There are no budgets. ")


def test_a_week_and_shares_and_a_part_are_set_and_deleted(run, traces):
    now = clock.format_ms(clock.now())
    traces.insert([make_entry(created_at=now, cost_cents=Decimal(500), project="shop")])
    part = ("--of", "project=shop")
    created = run(
        "budgets", "set", "--organization", "--week", "20", "--warn-at", "0.9,0.25", *part
    )
    assert created.exit_code == 0, created.output
    assert created.stdout.startswith(
        "Set the budget of the organisation for project shop: $20.00 a week, at 100 % calls go on"
        " (told at 25%, 90%); $5.00 spent since"
    )
    assert "(organisation) for project shop" in run("budgets", "list").stdout
    (item,) = json.loads(run("budgets", "list", "--json").stdout)["items"]
    assert (item["of"], item["warn_at"]) == ({"project": "shop"}, [0.25, 0.9])
    deleted = run("budgets", "delete", "--organization", *part)
    assert deleted.stdout == "Deleted the budget of the organisation for project shop.\n"
    assert run("budgets", "delete", "--organization", *part).exit_code == 1


def test_the_list_says_how_many_calls_have_no_price(run, traces):
    traces.insert([make_entry(created_at=clock.format_ms(clock.now()), cost_cents=None)])
    run("budgets", "set", "--organization", "--month", "25")
    assert "1 call without a known price" in run("budgets", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("set", "default"), 2, "--day, --week or --month"),
        (("set", "default", "--day", "1", "--month", "1"), 2, "--day, --week or --month"),
        (("set", "--day", "1"), 2, "name an endpoint, or use --organization"),
        (("set", "default", "--organization", "--day", "1"), 2, "name an endpoint"),
        (("set", "default", "--day", "0"), 2, "'0' is not an amount in dollars"),
        (("set", "default", "--day", "1", "--refuse", "--of", "user=ann"), 1, "only warns"),
        (("set", "default", "--day", "1", "--of", "model=m"), 2, "one such as project=shop"),
        (("set", "default", "--day", "1", "--of", "user=Ann Lee"), 2, "a user has 1 to 64"),
        (("set", "default", "--day", "1", "--warn-at", "80"), 2, "above 0 and up to 1"),
        (("set", "nobody", "--day", "1"), 1, "there is no proxy endpoint 'nobody'"),
        (("delete", "default"), 1, "has no budget"),
        (("delete",), 2, "name an endpoint"),
        (("time-zone", "Berlin"), 1, "'Berlin' is not a time zone"),
        (("webhook",), 1, "has no webhook"),
        (("webhook", "http://a.example"), 1, "needs https"),
        (("webhook", "https://a.example", "--delete"), 2, "choose one"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(run, arguments, status, message):
    result = run("budgets", *arguments)
    assert (result.exit_code, message in result.output) == (status, True), result.output


def test_the_time_zone_and_the_webhook_are_set_and_shown(run):
    assert run("budgets", "time-zone").stdout == "UTC\n"
    assert run("budgets", "time-zone", "Europe/Berlin").stdout == "Europe/Berlin\n"
    assert run("budgets", "time-zone").stdout == "Europe/Berlin\n"
    created = run("budgets", "webhook", "https://hooks.example.org/x").stdout
    assert created.splitlines()[-1].startswith("whsec_")
    assert run("budgets", "webhook").stdout == "https://hooks.example.org/x\n"
    document = json.loads(run("budgets", "webhook", "https://b.example", "--json").stdout)
    assert list(document) == ["url", "format", "created_at", "secret"]
    assert run("budgets", "webhook", "--delete").stdout == "Deleted the webhook.\n"
