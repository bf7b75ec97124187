import json
from datetime import timedelta
from decimal import Decimal

import pytest

from metering.formats import format_cents
from runtime import clock
from store.spool.format import Rejection
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_entry, make_item


@pytest.fixture
def entries(traces):
    traces.insert(
        [
            make_entry(created_at="2026-01-01T23:59:59.999Z", cost_cents=Decimal(400), model="b"),
            make_entry(created_at="2026-01-02T00:00:00.000Z", cost_cents=Decimal(100), model="a"),
            make_entry(created_at="2026-01-02T12:00:00.000Z", cost_cents=Decimal(100), model="a"),
            make_entry(created_at="2026-01-03T12:00:00.000Z", cost_cents=None, model="\x1b[2Jx"),
        ]
    )


def cells(result):
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.partition("\n\n")[0].splitlines()]


def test_days_have_totals_and_bars(run, entries):
    rows = cells(run("usage"))
    assert rows[0] == ["DAY", "(UTC)", "CALLS", "ERRORS", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert rows[1] == ["2026-01-03", "1", "0", "80", "40", "20", "-"]
    assert rows[2] == ["2026-01-02", "2", "0", "160", "80", "40", "$2.00", "█" * 12]
    assert rows[3] == ["2026-01-01", "1", "0", "80", "40", "20", "$4.00", "█" * 24]
    assert rows[4] == ["TOTAL", "4", "0", "320", "160", "80", "$6.00"]


def test_calls_without_a_price_are_pointed_out(run, entries):
    assert "1 call without a known price" in run("usage").stdout
    assert "price file (TAXIMETER_PRICES)" in run("usage").stdout
    assert "no known price" not in run("usage", "--to", "2026-01-02").stdout


@pytest.mark.parametrize(("count", "words"), [(1, "1 request."), (1_234, "1,234 requests.")])
def test_refused_requests_are_counted(run, traces, count, words):
    refused = Rejection(
        organization_id="org",
        hour="2026-01-02T03",
        proxy_endpoint_id="pe",
        slug="default",
        bucket="messages",
        count=count,
    )
    traces.insert_rejections("flush", [refused])
    assert f"Refused over the rate limit or a budget: {words}\n" in run("usage").stdout


def test_the_estimated_part_of_each_sum_has_a_column(run, traces):
    cut = {"usage_source": "estimated", "cost_cents": Decimal(100), "estimated_cents": Decimal(25)}
    traces.insert([make_entry(model="a", **cut), make_entry(model="b", cost_cents=Decimal(50))])
    result = run("usage", "--by", "model")
    rows = cells(result)
    assert rows[0][-3:] == ["OF", "WHICH", "ESTIMATED"]
    assert rows[1][6:8] == ["$1.00", "$0.2500"]
    assert rows[2][6:8] == ["$0.5000", "█" * 12]
    assert rows[3][6:8] == ["$1.50", "$0.2500"]
    assert "$0.2500 of the cost is estimated" in result.stdout


def test_without_an_estimate_there_is_no_column_for_one(run, entries):
    assert "ESTIMATED" not in run("usage").stdout


@pytest.mark.parametrize("cents", ["0", "0.001", "12.345", "99.996", "123456.7"])
def test_an_amount_is_written_as_on_pages(run, traces, cents):
    traces.insert([make_entry(cost_cents=Decimal(cents))])
    assert cells(run("usage"))[-1][-1] == format_cents(float(cents))


def test_calls_that_may_have_been_billed_are_counted(run, traces):
    gone = {"usage_source": "none", "cost_cents": None, "cost_items": (), "status_code": None}
    traces.insert([make_entry(outcome="upstream_timeout", **gone)])
    assert "1 call without usage that upstream may have billed" in run("usage").stdout
    assert json.loads(run("usage", "--json").stdout)["totals"]["maybe_billed"] == 1


def test_models_and_endpoints_are_listed_most_expensive_first(run, entries):
    assert [row[0] for row in cells(run("usage", "--by", "model"))] == [
        "MODEL", "b", "a", "?[2Jx", "TOTAL",
    ]  # fmt: skip
    assert [row[0] for row in cells(run("usage", "--by", "endpoint"))] == [
        "ENDPOINT", "default", "TOTAL",
    ]  # fmt: skip


def test_bars_are_of_calls_where_nothing_has_a_price(run, traces):
    traces.insert([make_entry(cost_cents=None)])
    assert cells(run("usage"))[1][-1] == "█" * 24


def test_days_are_chosen_and_both_inclusive(run, entries):
    rows = cells(run("usage", "--from", "2026-01-01", "--to", "2026-01-02"))
    assert [row[0] for row in rows[1:]] == ["2026-01-02", "2026-01-01", "TOTAL"]


@pytest.mark.parametrize(
    "period",
    [
        ("--since", "2026-01-01", "--until", "2026-01-03"),
        ("--since", "2026-01-01", "--to", "2026-01-02"),
        ("--from", "2026-01-01", "--until", "2026-01-03"),
    ],
)
def test_a_period_means_the_same_as_in_export(run, entries, period, far_from_utc):
    rows = cells(run("usage", *period))
    assert [row[0] for row in rows[1:]] == ["2026-01-02", "2026-01-01", "TOTAL"]
    exported = run("export", *period).stdout.splitlines()
    assert [json.loads(line)["created_at"][:10] for line in exported] == [
        "2026-01-01",
        "2026-01-02",
        "2026-01-02",
    ]


def test_whole_days_are_added_up_and_no_parts_of_them(run, entries):
    result = run("usage", "--since", "2026-01-01T12:00")
    assert result.exit_code == 2
    assert "write a day (UTC)" in result.output


def test_before_the_first_call_there_are_only_totals(run):
    assert cells(run("usage"))[1] == ["TOTAL", "0", "0", "0", "0", "0", "$0"]


def test_as_json_it_is_the_api_s_document(run, entries):
    document = json.loads(run("usage", "--by", "model", "--json").stdout)
    assert set(document) == {"by", "from", "to", "totals", "groups", "month", "products"}
    assert document["totals"]["cost_cents"] == 600
    assert [group["model"] for group in document["groups"]] == ["b", "a", "\x1b[2Jx"]


def test_value_and_spend_are_said_where_a_subscription_covers_calls(run, traces):
    traces.insert(
        [
            make_entry(cost_cents=Decimal(100), billing="subscription"),
            make_entry(cost_cents=Decimal(50), billing="api_key"),
        ]
    )
    line = "$1.00 of the cost is the value of calls that a subscription or a customer covers, or that are imported; $0.5000 is spend."
    assert line in run("usage").stdout
    totals = json.loads(run("usage", "--json").stdout)["totals"]
    assert (totals["cost_cents"], totals["value_cents"], totals["spend_cents"]) == (150, 100, 50)


def test_a_model_that_only_ran_passes_without_a_price_has_no_cost(run, traces):
    advice = make_item(model="advisor", component="output", quantity=7, cents=None)
    traces.insert(
        [make_entry(model="m", cost_cents=None, cost_items=(make_item(model="m"), advice))]
    )
    rows = {row[0]: row for row in cells(run("usage", "--by", "model"))}
    assert rows["advisor"][1:] == ["0", "0", "0", "0", "7", "-"]


def test_the_month_has_its_days_today_and_what_is_expected(run, traces):
    now = clock.now()
    last_month = now.replace(day=1, hour=0, minute=0) - timedelta(minutes=1)
    traces.insert(
        [
            make_entry(created_at=clock.format_ms(last_month), cost_cents=Decimal(700)),
            make_entry(created_at=clock.format_ms(now), cost_cents=Decimal(300)),
            make_entry(
                created_at=clock.format_ms(now), cost_cents=Decimal(50), billing="subscription"
            ),
        ]
    )
    result = run("usage", "--month")
    assert [row[0] for row in cells(result)] == ["DAY", now.date().isoformat(), "TOTAL"]
    assert "Today: $3.50\n" in result.stdout
    assert "This month so far: $3.50, of which $3.00 is spend\n" in result.stdout
    assert "Expected at its end: " in result.stdout
    month = json.loads(run("usage", "--month", "--json").stdout)["month"]
    assert (month["cost_cents"], month["spend_cents"], month["today_cents"]) == (350, 300, 350)


def test_the_month_is_no_other_period(run, entries):
    result = run("usage", "--month", "--from", "2026-01-01")
    assert result.exit_code == 2
    assert "--month excludes" in result.output


def test_nothing_is_expected_before_the_first_call(run, traces):
    assert "not known with less than a day of calls" in run("usage", "--month").stdout


def test_calls_that_reached_no_upstream_stand_under_the_model_that_they_asked_for(run, traces):
    failed = {"model": None, "usage_source": "none", "cost_items": (), "cost_cents": Decimal(0)}
    failed |= {"outcome": "upstream_unreachable", "status_code": None, "run_id": "run-1"}
    traces.insert(
        [
            make_entry(model="claude-a"),
            make_entry(request_model="claude-a", **failed),
            make_entry(request_model="\x1b[2Jx", **failed),
            make_entry(request_model=None, **failed),
        ]
    )
    shown = run("usage", "--by", "model").stdout
    for name in ("claude-a ", "claude-a (requested) ", "(not known) "):
        assert len([line for line in shown.splitlines() if line.startswith(name)]) >= 1, name
    assert "\x1b" not in shown
    groups = json.loads(run("usage", "--by", "model", "--json").stdout)["groups"]
    assert {(each["model"], each["request_model"], each["calls"]) for each in groups} == {
        ("claude-a", None, 1),
        (None, "claude-a", 1),
        (None, "\x1b[2Jx", 1),
        (None, None, 1),
    }


def test_products_of_their_own_are_named_beside_the_calls(run, traces):
    assert "Of the calls" not in run("usage").stdout
    traces.insert(
        [
            make_entry(cost_cents=Decimal(100), product="batch"),
            make_entry(cost_cents=Decimal(50), product="chat_completions"),
            make_entry(cost_cents=None, product="chat_completions"),
        ]
    )
    traces.write_upstream_objects(
        READING,
        [make_object("sesn_1", cents="190", list_cents="200"), make_object("drm_1", "dream")],
    )
    shown = run("usage").stdout
    assert (
        "Of the calls: 1 result of batches, $1.00; 2 chat completions, $0.5000, 1 without a known cost."
        in shown
    )
    assert (
        "Besides the calls: 1 dream, $1.00; 1 managed session, $1.90 ($2.00 by upstream's list)."
        in shown
    )
    products = json.loads(run("usage", "--json").stdout)["products"]
    assert {each["product"]: each["is_of_calls"] for each in products} == {
        "batch": True, "chat_completions": True, "dream": False, "session": False,
    }  # fmt: skip


def test_users_projects_and_tags_are_groups(run, traces):
    traces.insert(
        [
            make_entry(project="shop", tags='["env:prod","nightly"]', cost_cents=Decimal(300)),
            make_entry(project="\x1b[2Jx", agent_id="a1", cost_cents=Decimal(100)),
            make_entry(cost_cents=Decimal(200)),
        ]
    )
    names = {
        by: [(row[0], row[6]) for row in cells(run("usage", "--by", by))[1:-1]]
        for by in ("user", "project", "tag", "session", "agent")
    }
    assert names == {
        "user": [("(none)", "$6.00")],
        "project": [("shop", "$3.00"), ("(none)", "$2.00"), ("?[2Jx", "$1.00")],
        "tag": [("nightly", "$3.00"), ("env:prod", "$3.00")],
        "session": [("(none)", "$6.00")],
        "agent": [("(main)", "$5.00"), ("a1", "$1.00")],
    }
    (group, _) = json.loads(run("usage", "--by", "tag", "--json").stdout)["groups"]
    assert (group["tag"], group["project"], group["calls"]) == ("nightly", None, 1)
