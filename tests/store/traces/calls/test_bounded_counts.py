"""Numbers of calls that no sums have, and where they end."""

from decimal import Decimal

import pytest

from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from store.traces.calls import bounded_counts
from store.traces.calls.bounded_counts import count_chosen, count_in_table, find_first_id
from store.traces.calls.listed_calls import Chosen
from tests.store.traffic import make_entry

BETWEEN = "2026-01-02", "2026-01-03"
FAILED = ("tool_uses", "t.problem is not null")


def use(*problems):
    return tuple(
        ToolUse(tool="Bash", result=ToolResult(tokens, problem))
        for tokens, problem in enumerate(problems)
    )


@pytest.fixture
def calls(traces):
    traces.insert(
        [
            make_entry(created_at="2026-01-02T23:00:00.000Z", tool_uses=use("exit 1", "exit 2")),
            make_entry(created_at="2026-01-03T00:00:00.000Z", tool_uses=use("exit 1")),
            make_entry(created_at="2026-01-01T23:59:59.999Z", tool_uses=use("exit 1")),
            make_entry(created_at="2026-01-02T00:00:00.000Z", tool_uses=use(None, "exit 1")),
            make_entry(created_at="2026-01-02T01:00:00.000Z", tool_uses=use(None)),
        ]
    )
    return traces.connection


def test_calls_between_two_instants_count_once_whatever_the_order_they_came_in(calls):
    first_id = find_first_id(calls, *BETWEEN)
    assert first_id == 1
    assert count_in_table(calls, *FAILED, BETWEEN, first_id) == 2
    assert find_first_id(calls, "2027", "2028") == 0
    assert count_in_table(calls, *FAILED, ("2027", "2028"), 0) == 0


def test_calls_that_are_chosen_are_counted(calls):
    assert count_chosen(calls, Chosen("u.created_at >= ?", ("2026-01-02",))) == 4


def test_what_takes_too_many_steps_has_no_number_and_the_next_one_has(calls, monkeypatch):
    monkeypatch.setattr(bounded_counts, "READ", 10)
    assert find_first_id(calls, *BETWEEN) is None
    assert count_in_table(calls, *FAILED, BETWEEN, 1) is None
    assert count_chosen(calls, Chosen("true", ())) == 5
    monkeypatch.setattr(bounded_counts, "LOOKED_UP", 10)
    assert count_chosen(calls, Chosen("true", ())) is None
    assert calls.execute("select count(*) from usage a, usage b, usage c").fetchone() == (125,)


def test_expensive_calls_are_found_by_their_index(traces):
    traces.insert([make_entry(cost_cents=Decimal(cents)) for cents in ("9.99", "10", "11")])
    chosen = Chosen("u.created_at >= ? and u.cost_cents >= ?", ("2026", 10.0))
    assert count_chosen(traces.connection, chosen) == 2
    plan = traces.connection.execute(
        f"explain query plan select count(*) from usage as u where {chosen.sql}",  # noqa: S608
        chosen.values,
    ).fetchall()
    assert "usage_expensive" in plan[0][-1]
