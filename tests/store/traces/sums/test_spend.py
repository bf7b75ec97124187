from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from metering.attribution import Part
from metering.budget_periods import Span
from runtime import clock
from store.traces.calls.costs import NewCost
from store.traces.database import TraceDatabase
from store.traces.sums.spend import Spend, find_spend, read_part_spend, read_spend, read_spends_of
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_entry

START = datetime(2026, 2, 27, 20, 10, tzinfo=UTC)


def make_call(at, cents="1", **changes):
    cost = None if cents is None else Decimal(cents)
    return make_entry(created_at=clock.format_ms(at), cost_cents=cost, **changes)


def test_spend_is_what_is_billed_by_the_token(traces):
    traces.insert(
        [
            make_call(START, "1", billing="api_key"),
            make_call(START, "20"),  # nothing tells who pays
            make_call(START, "300", billing="subscription"),
            make_call(START, "600000", billing="customer"),
            make_call(START, None, billing="customer"),
            make_call(START, "4000", billing="subscription", overage=True),
            make_call(START, None, billing="api_key"),
            make_call(START, "50000", proxy_endpoint_id="pe_2"),
        ]
    )
    # The whole hour is read from the sums, half of it from the calls.
    for length in (timedelta(hours=4), timedelta(minutes=30)):
        start = START.replace(minute=0)
        found = read_spend(traces.connection, Span(start, start + length))
        assert found == {"pe_1": Spend(4021.0, 1), "pe_2": Spend(50000.0, 0)}
    assert find_spend(found, "pe_1").dollars == 40.21
    assert find_spend(found, None) == Spend(54021.0, 1)
    assert find_spend(found, "pe_3") == Spend(0.0, 0)


def test_managed_sessions_and_dreams_are_spend_of_the_period_they_began_in(traces):
    started = {"created_at": clock.format_ms(START)}
    traces.write_upstream_objects(
        READING,
        [
            make_object("sesn_1", cents="100", list_cents="90", **started),
            make_object("sesn_2", cents=None, list_cents="20", **started),
            make_object("sesn_3", cents=None, **started),
            make_object("sesn_4", cents="4000", created_at=clock.format_ms(START - timedelta(1))),
            make_object("drm_1", "dream", "3", session_id="sesn_5", **started),
            make_object("sesn_5", cents="3", **started),
        ],
    )
    traces.insert([make_call(START, "1000")])
    found = read_spend(traces.connection, Span(START, START + timedelta(hours=3)))
    assert found == {"pe_1": Spend(1123.0, 1)}


def test_a_new_price_changes_the_spend(traces):
    traces.insert([make_call(START, None)])
    span = Span(START - timedelta(days=1), START + timedelta(days=1))
    assert find_spend(read_spend(traces.connection, span), None) == Spend(0.0, 1)
    items = make_call(START, "7").cost_items
    traces.update_costs([NewCost(usage_id=1, cost_cents=Decimal(7), cost_items=items)])
    assert find_spend(read_spend(traces.connection, span), None) == Spend(7.0, 0)


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A database with a call every 17 minutes for ten days, over the end of a month, and their cents."""
    calls = {START + timedelta(minutes=17 * n): n + 1 for n in range(850)}
    with TraceDatabase(tmp_path_factory.mktemp("busy") / "traces.db") as traces:
        traces.insert([make_call(at, str(cents)) for at, cents in calls.items()])
        yield traces.connection, calls


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(-200, 1000), length=st.integers(1, 1100))
@pytest.mark.slow
def test_the_parts_of_a_period_add_up_to_its_calls(busy, start, length):
    """Periods begin and end at quarters of an hour, as days do in every time zone."""
    connection, calls = busy
    begins_at = datetime(2026, 2, 27, tzinfo=UTC) + timedelta(minutes=15 * start)
    span = Span(begins_at, begins_at + timedelta(minutes=15 * length))
    expected = sum(cents for at, cents in calls.items() if span.has(at))
    assert find_spend(read_spend(connection, span), None).cents == expected


def test_nothing_is_spent_before_there_is_a_database(tmp_path):
    day = Span(START, START + timedelta(days=1))
    assert read_spends_of(tmp_path / "traces.db", [(day, None, None)]) == [Spend()]


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A database as ``busy``, of whose calls each third is of a project and each fifth has two tags."""
    calls = {}
    with TraceDatabase(tmp_path_factory.mktemp("tagged") / "traces.db") as traces:
        for n in range(300):
            at = START + timedelta(minutes=17 * n)
            said = {"project": "shop"} if n % 3 == 0 else {}
            if n % 5 == 0:
                said["tags"] = '["env:prod", "nightly"]'
            endpoint_id = "pe_1" if n % 2 else "pe_2"
            traces.insert([make_call(at, str(n), proxy_endpoint_id=endpoint_id, **said)])
            calls[at] = n
        yield traces.connection, calls


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(-100, 400), length=st.integers(1, 400), of_one=st.booleans())
def test_the_spend_of_a_part_is_that_of_its_calls(tagged, start, length, of_one):
    connection, calls = tagged
    begins_at = datetime(2026, 2, 27, tzinfo=UTC) + timedelta(minutes=15 * start)
    span = Span(begins_at, begins_at + timedelta(minutes=15 * length))
    within = [n for at, n in calls.items() if span.has(at) and (n % 2 or not of_one)]
    for part, every in (
        (Part("project", "shop"), 3),
        (Part("tag", "env:prod"), 5),
        (Part("tag", "nightly"), 5),
    ):
        spent = read_part_spend(connection, span, part, "pe_1" if of_one else None)
        assert spent.cents == sum(n for n in within if n % every == 0)
