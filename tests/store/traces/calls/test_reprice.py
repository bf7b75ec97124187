from dataclasses import replace
from decimal import Decimal

import pytest

from metering.entry import CostItem
from metering.price_format import parse_price_file
from metering.prices import PriceTable
from metering.token_counts import TokenCounts
from store.traces.calls.cache_breaks import find_break, write_break
from store.traces.calls.reprice import reprice
from store.traces.database import TraceDatabase
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_break, make_entry

PRICES = PriceTable()
MILLION = 1_000_000


def line(**changes: object) -> CostItem:
    values: dict[str, object] = {
        "pass_index": 0,
        "model": "claude-opus-5",
        "component": "input",
        "quantity": MILLION,
        "prompt_tokens": MILLION,
    }
    return CostItem(**(values | changes))  # type: ignore[arg-type]  # a table of tests says what it likes


def cost_after_reprice(traces: TraceDatabase, *, everything: bool = False, **fields: object):
    traces.insert([make_entry(**({"model": "claude-opus-5", "cost_cents": None} | fields))])
    reprice(traces, PRICES, everything=everything)
    return traces.connection.execute("select cost_cents from usage").fetchone()[0]


def test_what_is_not_billed_stays_free_and_what_is_unknown_gets_its_price(traces):
    items = (
        line(model="claude-unknown-9", unbilled_reason="declined_hop"),
        line(pass_index=1),
    )
    assert cost_after_reprice(traces, cost_items=items) == 500  # 1M x $5, and nothing
    rows = traces.connection.execute("select unbilled_reason, multiplier, cents from usage_cost")
    assert rows.fetchall() == [("declined_hop", 0, 0), (None, 1, 500)]


def test_a_line_of_a_model_without_a_price_leaves_the_cost_unknown(traces):
    items = (line(model="claude-unknown-9"), line(unbilled_reason="failed"))
    assert cost_after_reprice(traces, cost_items=items) is None


def test_no_price_list_can_tell_a_cost_of_which_a_count_is_missing(traces):
    items = (line(quantity=0, note="count_missing"), line(component="output"))
    for everything in (False, True):
        assert cost_after_reprice(traces, cost_items=items, everything=everything) is None
    assert list(traces.verify()) == []


def test_an_estimate_stays_marked_and_its_share_follows_the_price(traces):
    items = (line(), line(component="output", estimated=True))
    cost = cost_after_reprice(traces, cost_items=items, usage_source="estimated")
    assert cost == 500 + 2500
    read = traces.connection.execute
    assert read("select component, estimated from usage_cost").fetchall() == [
        ("input", 0),
        ("output", 1),
    ]
    assert read("select estimated_cents from usage").fetchone() == (2500,)
    assert read("select cost_cents, estimated_cents, unpriced from usage_hourly").fetchall() == [
        (3000, 2500, 0)
    ]


@pytest.mark.parametrize(
    ("fields", "cents"),
    [
        ({"outcome": "upstream_error", "status_code": 200}, 0),  # an error event in a stream
        ({"outcome": "client_disconnected", "status_code": None}, None),
    ],
)
@pytest.mark.parametrize("everything", [False, True])
def test_a_call_without_usage_is_free_where_upstream_bills_none(traces, fields, cents, everything):
    found = cost_after_reprice(
        traces, usage_source="none", cost_items=(), everything=everything, **fields
    )
    assert found == cents


@pytest.mark.parametrize(
    ("speed", "model", "cents"),
    [
        (None, "claude-opus-5", 1000),  # an old row: the speed of the call, fast
        (None, "claude-opus-4-8", 500),  # an old row of another model: the standard one
        ("standard", "claude-opus-5", 500),
        ("fast", "claude-opus-4-8", 1000),
    ],
)
def test_each_line_has_the_price_of_its_own_speed(traces, speed, model, cents):
    item = line(speed=speed, model=model)
    assert cost_after_reprice(traces, speed="fast", cost_items=(item,)) == cents


def test_costs_that_are_right_are_not_counted_as_new(traces):
    traces.insert([make_entry(cost_items=(line(),), cost_cents=Decimal(500))])
    assert reprice(traces, PRICES, everything=True) == 0


def test_a_cache_break_gets_its_cost_with_the_price(traces):
    items = (
        line(component="cache_write_5m", quantity=2_000),
        line(quantity=7_000),
        line(pass_index=1, component="cache_write_5m", quantity=9_000),
    )
    traces.insert([make_entry(model="claude-opus-5", cost_cents=None, cost_items=items)])
    write_break(traces.connection, 1, make_break(tokens=3_000))
    assert reprice(traces, PRICES, everything=False) == 1
    found = find_break(traces.connection, 1)
    assert found is not None
    # 2,000 tokens written again and 1,000 sent uncached, where reading costs $0.50 a million.
    assert found.extra_cost_cents == pytest.approx((2 * (6.25 - 0.5) + (5 - 0.5)) / 10)
    assert reprice(traces, PRICES, everything=True) == 0


def test_a_cache_break_without_a_cost_is_priced_also_where_its_call_has_one(traces):
    test_a_cache_break_gets_its_cost_with_the_price(traces)
    traces.connection.execute("update cache_breaks set extra_cost_cents = null")
    assert reprice(traces, PRICES, everything=True) == 1
    found = find_break(traces.connection, 1)
    assert found is not None
    assert found.extra_cost_cents is not None


def test_managed_sessions_and_dreams_are_priced_by_what_is_stored_of_them(traces):
    tokens = TokenCounts(
        input_tokens=MILLION,
        output_tokens=0,
        cache_creation_input_tokens=0,
        cache_read_input_tokens=0,
    )
    counts = {"tokens": tokens, "model": "claude-opus-5"}
    traces.write_upstream_objects(
        READING,
        [
            make_object("sesn_1", cents=None, active_seconds=900.0, **counts),
            make_object("drm_1", "dream", cents="7", **counts),
            make_object("sesn_2", cents=None, tokens=tokens, model=None),
        ],
    )

    def read():
        sql = "select object_id, cost_cents from upstream_objects order by 1"
        return dict(traces.connection.execute(sql).fetchall())

    assert reprice(traces, PRICES, everything=False) == 1
    assert read() == {"sesn_1": 502, "drm_1": 7, "sesn_2": None}  # $5, and a quarter of 8 cents
    assert reprice(traces, PRICES, everything=True) == 1
    assert read() == {"sesn_1": 502, "drm_1": 500, "sesn_2": None}


AT_EU = """
[[models]]
match = "claude-opus-5"
upstream = "eu"
starts = 2020-01-01
input = 7
output = 35
cache_read = 0.7
cache_write_5m = 8.75
cache_write_1h = 14
"""


@pytest.mark.parametrize(("upstream", "cents"), [(None, 500), ("eu", 700), ("foundry", None)])
def test_a_call_gets_the_price_of_the_upstream_that_it_went_to(traces, upstream, cents):
    entry = make_entry(
        model="claude-opus-5", cost_cents=None, cost_items=(line(),), upstream=upstream
    )
    traces.insert([entry])
    reprice(traces, PriceTable(parse_price_file(AT_EU, "prices.toml")), everything=False)
    found = traces.connection.execute("select upstream, cost_cents from usage").fetchall()
    assert found == [(upstream, cents)]


@pytest.mark.parametrize("upstream", [None, "eu"])
def test_an_object_gets_the_price_of_the_upstream_that_it_was_read_from(traces, upstream):
    tokens = TokenCounts(
        input_tokens=1, output_tokens=1, cache_creation_input_tokens=0, cache_read_input_tokens=0
    )
    known = make_object("session_1", cents=None, model="claude-opus-5", tokens=tokens)
    traces.write_upstream_objects(replace(READING, upstream=upstream), [known])
    reprice(traces, PRICES, everything=False)
    ((reading, priced),) = traces.list_upstream_objects(only_unpriced=False)
    assert reading.upstream == upstream
    assert (priced.cost_cents is None) == (upstream is not None)
