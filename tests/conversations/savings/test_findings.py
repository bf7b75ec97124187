"""The rules of savings: what each finds, what it costs, and that no token is blamed twice."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from conversations.savings.calls import Break, list_chains
from conversations.savings.findings import find_savings
from tests.conversations.savings.calls import PRICES, broken, expired, make_call


def found(*calls):
    """Return cents and tokens of the findings by kind and subject."""
    return {
        (each.kind.name, each.subject): (each.cents, each.tokens) for each in find_savings(calls)
    }


def test_a_session_that_only_grows_has_nothing_to_save():
    calls = [make_call(1, 0, written_5m=10_000, uncached=5)]
    for number in range(2, 20):
        read = 10_000 + 500 * (number - 2)
        calls.append(make_call(number, number, read=read, written_5m=500, uncached=5))
    assert found(*calls) == {}


def test_a_cache_break_costs_what_was_stored_with_it():
    first = make_call(1, 0, written_5m=10_000)
    second = make_call(2, 1, written_5m=10_100, cache_break=broken(10_000))
    cents = 10_000 * (PRICES["written_5m"] - PRICES["read"])
    assert found(first, second)["cache_break", "tools"] == (cents, 10_000)


def pause(minutes, prefix=50_000):
    return (
        make_call(1, 0, written_5m=prefix),
        make_call(2, minutes, written_5m=prefix + 100, cache_break=expired(prefix, minutes)),
    )


def test_a_pause_costs_what_the_lifetime_of_an_hour_would_have_saved():
    again = 50_000 * (PRICES["written_5m"] - PRICES["read"])
    for_hour = 50_100 * (PRICES["written_1h"] - PRICES["written_5m"])
    assert found(*pause(20))["idle_gap", ""] == (pytest.approx(again - for_hour), 50_000)


def test_a_pause_for_which_an_hour_would_have_cost_more_saves_nothing():
    first, second = pause(20, prefix=5_000)
    more = make_call(3, 21, read=5_100, written_5m=90_000)
    assert ("idle_gap", "") not in found(first, second, more)


def test_no_lifetime_helps_against_a_pause_of_two_hours():
    again = 50_000 * (PRICES["written_5m"] - PRICES["read"])
    assert found(*pause(120)) == {("long_gap", ""): (again, 50_000)}


def test_repeated_prompts_that_were_never_cached_cost_what_a_marker_would_have_saved():
    calls = [make_call(n, n, uncached=10_000 + 1_000 * (n - 1)) for n in (1, 2, 3)]
    more, less = PRICES["written_5m"] - PRICES["uncached"], PRICES["uncached"] - PRICES["read"]
    expected = (10_000 + 11_000) * less - 12_000 * more
    assert found(*calls)["never_cached", ""] == (pytest.approx(expected), 21_000)


@pytest.mark.parametrize(
    "change",
    [
        {"began_at": 1_000.0},  # too late for a read
        {"previous_id": None},  # another conversation
        {"model": "claude-haiku-4-5"},
        {"tokens": make_call(1, 0, uncached=900).tokens},
    ],
)
def test_prompts_that_could_not_be_read_again_are_not_blamed(change):
    values = {"uncached": 900} if "tokens" in change else {"uncached": 20_000}
    first = make_call(1, 0, **values)
    changed = {**values, **change}
    if "tokens" in changed:
        del changed["uncached"]
    else:
        changed["uncached"] = 20_000
    second = make_call(2, changed.pop("began_at", 60.0) / 60, **changed)
    assert found(first, second) == {}


def test_a_write_that_nothing_read_costs_more_than_input():
    lone = make_call(1, 0, written_5m=8_000)
    more = 8_000 * (PRICES["written_5m"] - PRICES["uncached"])
    assert found(lone) == {("never_read", ""): (more, 8_000)}
    reader = make_call(2, 2, read=8_000, previous_id=None)
    assert found(lone, reader) == {}
    late = make_call(2, 7, read=8_000, previous_id=None)
    assert found(lone, late) == {("never_read", ""): (more, 8_000)}
    assert found(make_call(1, 0, written_5m=8_000, read_elsewhere=8_000)) == {}


def test_an_hour_is_needless_where_no_pause_was_longer_than_five_minutes():
    calls = [
        make_call(1, 0, written_1h=10_000),
        make_call(2, 3, read=10_000, written_1h=1_000),
    ]
    more = 11_000 * (PRICES["written_1h"] - PRICES["written_5m"])
    assert found(*calls) == {("needless_hour", ""): (more, 11_000)}
    longer = make_call(3, 30, read=11_000, written_1h=10)
    assert found(*calls, longer) == {}


def test_a_failed_call_costs_what_was_billed_of_it():
    call = make_call(1, 0, uncached=1_000, output_tokens=10, outcome="upstream_interrupted")
    cents = 1_000 * PRICES["uncached"] + 10 * PRICES["output"]
    assert found(call) == {("failed_call", "upstream_interrupted"): (cents, 1_010)}
    free = make_call(1, 0, outcome="upstream_error")
    assert found(free) == {}
    left = make_call(1, 0, uncached=1_000, outcome="client_disconnected")
    assert found(left) == {}


def test_side_calls_are_no_turns_of_a_conversation():
    title = make_call(2, 1, uncached=9_000, is_side_call=True)
    turns = [make_call(1, 0, uncached=9_000), make_call(3, 2, uncached=9_100, previous_id=1)]
    assert [[call.id for call in chain] for chain in list_chains([title, *turns])] == [[1, 3]]


def test_a_price_that_is_not_known_costs_nothing_and_is_told_apart():
    unpriced = Break(cause="system", tokens=5_000, gap_s=1, extra_cents=None)
    calls = (
        make_call(1, 0, written_5m=5_000),
        make_call(2, 1, written_5m=5_000, cache_break=unpriced),
    )
    [finding] = find_savings(calls)
    assert (finding.tokens, float(finding.cents), finding.unpriced) == (5_000, 0.0, 5_000)


def test_findings_are_told_apart_by_day_and_name_their_calls():
    calls = [
        make_call(1, 0, written_5m=10_000),
        make_call(2, 1, written_5m=10_000, cache_break=broken(9_000), day="2026-03-01"),
        make_call(3, 2, written_5m=10_000, cache_break=broken(10_000), day="2026-03-01"),
        make_call(4, 3, written_5m=10_000, cache_break=broken(8_000), day="2026-03-02"),
    ]
    days = {each.day: [id_ for id_, _ in each.top] for each in find_savings(calls)}
    assert days == {"2026-03-01": [3, 2], "2026-03-02": [4]}


COUNTS = st.integers(0, 60_000)
OUTCOMES = st.sampled_from(["complete", "upstream_interrupted", "upstream_error"])


@st.composite
def sessions(draw):
    calls, minute = [], 0.0
    for number in range(1, draw(st.integers(2, 7))):
        minute += draw(st.sampled_from([0.5, 2, 8, 40, 90]))
        counts = {
            name: draw(COUNTS) if draw(st.booleans()) else 0
            for name in ("read", "written_5m", "written_1h", "uncached")
        }
        call = make_call(
            number,
            minute,
            **counts,
            previous_id=draw(st.sampled_from([None, *range(1, number)])),
            outcome=draw(OUTCOMES),
            output_tokens=draw(COUNTS),
        )
        tokens = call.tokens.written + call.tokens.uncached
        if tokens and draw(st.booleans()):
            missed = draw(st.integers(1, tokens))
            broke = Break(
                cause=draw(st.sampled_from(["tools", "expired"])),
                tokens=missed,
                gap_s=draw(st.sampled_from([500, 5_000])),
                extra_cents=missed * (PRICES["uncached"] - PRICES["read"]),  # the least that it is
            )
            call = replace(call, cache_break=broke)
        calls.append(call)
    return calls


@given(sessions())
def test_tokens_of_a_call_are_blamed_once(calls):
    findings = find_savings(calls)
    paid = sum(
        sum(call.count(part) * PRICES[part] for part in PRICES if part != "output")
        + call.output_tokens * PRICES["output"]
        for call in calls
    )
    tokens = sum(call.tokens.total + call.output_tokens for call in calls)
    assert sum(each.tokens for each in findings) <= tokens
    assert sum((each.cents for each in findings), Decimal(0)) <= paid + Decimal("0.000001")
    assert all(each.cents >= 0 for each in findings)
