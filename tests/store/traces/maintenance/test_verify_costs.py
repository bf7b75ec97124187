import random
from decimal import Decimal

import pytest

from store.traces.maintenance import verify_costs
from store.traces.sums.rollup import SUMS
from tests.store.traces.sums.test_rollup import make_any, make_pass
from tests.store.traffic import make_entry

PASSES = (*make_pass("top"), *make_pass("advisor", index=1, rate="10"))
CALL = {
    "model": "top",
    "client": "tool/1",
    "billing": "subscription",
    "cost_items": PASSES,
    "cost_cents": Decimal("0.18"),
}


def list_problems(traces):
    return [(problem.entry_id, problem.message) for problem in traces.verify()]


def list_hourly_problems(traces):
    """Return the problems but for those of days, which are compared with the hours."""
    return [each for each in list_problems(traces) if not each[1].startswith("usage_daily")]


@pytest.fixture
def stored(traces):
    """A call with an advisor."""
    traces.insert([make_entry(entry_id="e", **CALL)])
    return traces


def change(traces, sql):
    """Make a change that no code of ours makes, of one row."""
    assert traces.connection.execute(sql).rowcount == 1


@pytest.mark.parametrize("seed", range(3))
def test_what_was_recorded_has_no_problems(traces, monkeypatch, seed):
    """Also over several pages, and after retention."""
    monkeypatch.setattr(verify_costs, "_PAGE", 7)
    rng = random.Random(seed)  # noqa: S311
    traces.insert([make_any(rng) for _ in range(50)])
    assert list_problems(traces) == []
    traces.prune(before="2026-01-02T01", pause=lambda _: None)
    assert 0 < traces.count_entries() < 50
    assert list_problems(traces) == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("update usage_cost set cents = 9 where line = 2", "line item 2 costs 9.0 cents, not 0.1"),
        ("update usage_cost set quantity = 99 where line = 0", "line item 0 costs 0.02 cents"),
        ("update usage_cost set multiplier = 0.5 where line = 3", "line item 3 costs 0.05 cents"),
        ("update usage_cost set cents = null where line = 1", "line item 1 costs None cents"),
        ("update usage_cost set rate_usd = null where line = 1", "line item 1 costs 0.01 cents"),
        (
            "update usage_cost set unbilled_reason = 'failed' where line = 0",
            "line item 0 costs 0.02 cents, not 0",
        ),
        ("update usage set cost_cents = 1", "cost_cents is 1.0, and its line items come to 0.18"),
        ("update usage set cost_cents = null", "cost_cents is None, and its line items come to"),
    ],
)
def test_a_cost_that_does_not_add_up_is_named(stored, sql, message):
    change(stored, sql)
    assert [entry_id for entry_id, text in list_problems(stored) if message in text] == ["e"]


@pytest.mark.parametrize("name", verify_costs._COLUMNS)
def test_every_hourly_sum_is_compared(stored, name):
    change(stored, f"update usage_hourly set {name} = {name} + 1 where model = 'advisor'")  # noqa: S608
    if name == "entries":  # as if retention had removed a call of the hour
        assert list_hourly_problems(stored) == []
        change(stored, "update usage_hourly set entries = -1 where model = 'advisor'")
    (problem,) = list_hourly_problems(stored)
    assert problem[0] is None
    assert f" {name} for 2026-01-02T03, pe_1, default, advisor, subscription" in problem[1]


@pytest.mark.parametrize("sums", ["one", "all"])
def test_sums_that_are_not_there_are_missed(stored, sums):
    where = "where model = 'top'" if sums == "one" else ""
    stored.connection.execute(f"delete from usage_hourly {where}")  # noqa: S608
    assert any("has 0 entries for 2026-01-02T03" in text for _, text in list_problems(stored))


def test_a_subscription_is_not_taken_for_another_bill(stored):
    change(stored, "update usage set overage = 1")
    assert any("top, overage" in text for _, text in list_problems(stored))


@pytest.mark.parametrize("name", SUMS)
def test_every_daily_sum_is_compared(stored, name):
    change(stored, f"update usage_daily set {name} = {name} + 1 where model = 'advisor'")  # noqa: S608
    ((entry_id, message),) = list_problems(stored)
    assert entry_id is None
    assert message.startswith("usage_daily has ")
    assert f" {name} for 2026-01-02, pe_1, default, advisor" in message


@pytest.mark.parametrize("table", ["usage_daily", "usage_hourly"])
def test_a_day_that_only_one_of_both_has_is_named(stored, table):
    stored.connection.execute(f"delete from {table}")  # noqa: S608 - one of two names
    assert any(text.startswith("usage_daily has ") for _, text in list_problems(stored))
