"""The sums and histograms of days, and the sums of agents, against SQL over the calls."""

import math
import random
from decimal import Decimal

import pytest

from metering.body_fields import calculate_speed
from store.traces.calls.costs import NewCost
from store.traces.sums.histograms import RESOLUTION, count, find_percentile
from store.traces.sums.rollup import DAY_KEYS, SUMS
from store.traces.sums.timings import MEASURES, NOTHING, Timing, unpack
from tests.store.traffic import make_entry, make_item

_ROUNDED = ", ".join(f"round(sum({name}), 6)" for name in SUMS)
_KEYS = ", ".join(DAY_KEYS[1:])
DAILY = (
    f"select day, {_KEYS}, {_ROUNDED} from usage_daily group by day, {_KEYS} order by {_KEYS}, day"  # noqa: S608
)
HOURLY = (
    f"select substr(hour, 1, 10), {_KEYS}, {_ROUNDED} from usage_hourly"  # noqa: S608
    f" group by 1, {_KEYS} order by {_KEYS}, 1"
)
VIEW = DAILY.replace("usage_daily", "usage_days")
_VALUE = "case when billing = 'customer' or billing = 'subscription' and coalesce(overage, 0) = 0 then cost_cents end"
AGENTS = (
    "select day, session_id, agent_id, entries, errors, unpriced, maybe_billed, input_tokens,"
    " round(cost_cents, 6), round(estimated_cents, 6), round(value_cents, 6)"
    " from agents_daily order by 1, 2, 3"
)
# Worked out from the calls themselves.
AGENTS_INDEPENDENT = (
    "select substr(created_at, 1, 10), ifnull(session_id, ''), ifnull(agent_id, ''), count(*),"  # noqa: S608
    " sum(outcome not in ('complete', 'client_disconnected')),"
    " sum(cost_cents is null and usage_source <> 'none'),"
    " sum(usage_source = 'none' and outcome <> 'upstream_error' and status_code < 300),"
    " total(input_tokens), round(total(cost_cents), 6), round(total(estimated_cents), 6),"
    f" round(total({_VALUE}), 6) from usage group by 1, 2, 3 order by 1, 2, 3"
)


def make_entries(number=120, seed=1):
    dice = random.Random(seed)  # noqa: S311
    return [make_any(dice) for _ in range(number)]


def make_any(dice):
    ttfb_ms = dice.lognormvariate(6, 1)
    duration_ms = ttfb_ms + dice.choice([3.0, 800.0, 9_000.0])
    timed = {"ttfb_ms": ttfb_ms, "duration_ms": duration_ms, "streamed": dice.random() < 0.8}
    source = dice.choice(["final", "final", "estimated", "none"])
    return make_entry(
        created_at=f"2026-01-{dice.randrange(1, 5):02}T{dice.randrange(24):02}:10:00.000Z",
        slug=dice.choice(["one", "two"]),
        model=dice.choice([None, "m", "n"]),
        client=dice.choice([None, "claude-cli/2.1", "sdk 1.0"]),
        credential_hmac=dice.choice([None, "x"]),
        session_id=dice.choice([None, "a", "b"]),
        agent_id=dice.choice([None, "sub"]),
        billing=dice.choice([None, "api_key", "subscription", "customer"]),
        overage=dice.choice([None, False, True]),
        cost_cents=dice.choice([None, Decimal("1.5")]),
        outcome=dice.choice(["complete", "upstream_error"]),
        usage_source=source,
        proxy_overhead_ms=dice.choice([None, 0.4, 12.0]),
        output_tokens_per_s=calculate_speed(source=source, output_tokens=20, **timed),
        **timed,
    )


def read(traces, sql):
    return traces.connection.execute(sql).fetchall()


def check_timings(traces):
    """Compare the percentiles of all days with those of the calls."""
    total = NOTHING
    for row in traces.connection.execute(f"select {', '.join(MEASURES)} from timings_daily"):  # noqa: S608
        total += unpack(row)
    for name, histogram in zip(MEASURES, total, strict=True):
        values = [
            value
            for (value,) in traces.connection.execute(
                f"select {name} from usage where {name} is not null order by 1"  # noqa: S608
            )
        ]
        assert count(histogram) == len(values) > 10
        for share in (0.5, 0.95):
            exact = values[math.ceil(share * len(values)) - 1]
            assert find_percentile(histogram, share) == pytest.approx(exact, rel=RESOLUTION)


def check(traces):
    assert read(traces, DAILY) == read(traces, VIEW) == read(traces, HOURLY)
    assert read(traces, AGENTS) == read(traces, AGENTS_INDEPENDENT)
    check_timings(traces)


def test_sums_and_histograms_are_those_of_the_calls_whatever_the_batches(traces):
    entries = make_entries()
    for start in range(0, len(entries), 7):
        traces.insert(entries[start : start + 7])
        traces.insert(entries[start : start + 7])  # again, as after a crash
    check(traces)


def test_a_changed_cost_is_that_of_its_day_and_agent_too(traces):
    traces.insert(make_entries())
    for usage_id, cents in ((3, Decimal(40)), (4, None), (5, Decimal(0)), (900, Decimal(1))):
        items = () if cents is None else (make_item(model="other", cents=cents),)
        traces.update_costs([NewCost(usage_id=usage_id, cost_cents=cents, cost_items=items)])
    check(traces)


def test_names_that_share_a_row_of_the_hour_share_that_of_the_day(traces):
    at = "2026-01-01T10:00:00.000Z"
    traces.insert([make_entry(created_at=at, client=f"c{number}") for number in range(30)])
    clients = read(traces, "select client, entries from usage_daily order by 1")
    assert clients[0] == ("(other)", 10)
    assert len(clients) == 21
    assert clients == [
        (client, count(unpack((stored, b"", b"", b"")).ttfb_ms))
        for client, stored in read(
            traces, "select client, duration_ms from timings_daily order by 1"
        )
    ]


def test_a_call_without_times_is_counted_nowhere(traces):
    traces.insert([make_entry(duration_ms=None)])
    (row,) = read(traces, f"select {', '.join(MEASURES)} from timings_daily")  # noqa: S608
    assert unpack(row) == Timing()
