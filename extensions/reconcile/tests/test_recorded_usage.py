"""Recorded usage is read by the model of each pass, and says what is left out or less exact."""

import sqlite3
from datetime import date
from decimal import Decimal

import pytest

from extensions.reconcile.comparison import (
    NOTHING,
    TOKENS,
    WEB_SEARCH,
    Cause,
    Figures,
    RecordedUsage,
)
from extensions.reconcile.recorded_usage import read_recorded_usage
from metering.prices import PriceTable
from metering.token_counts import TokenCounts
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry, make_item

DAY = date(2026, 1, 2)
AT = "2026-01-02T12:00:00.000Z"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "traces.db"


@pytest.fixture
def record(path):
    def record(*entries):
        with TraceDatabase(path) as traces:
            traces.insert([make_entry(**({"created_at": AT} | changes)) for changes in entries])

    return record


def make_items(cents="1", model="m", pass_index=0):
    """One line of each component: 1, 2, 3, 4 and 5 tokens."""
    names = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    return tuple(
        make_item(
            component=name,
            quantity=number,
            model=model,
            pass_index=pass_index,
            cents=cents and Decimal(cents),
        )
        for number, name in enumerate(names, 1)
    )


def read(path, first=DAY, last=DAY, organization=None):
    return read_recorded_usage(path, first, last, PriceTable(), organization)


def figures_of(found):
    """Return the figures by day, kind and model."""
    figures: dict[tuple[date, str, str | None], Figures] = {}
    for item in found.items:
        if item.figures != NOTHING:
            key = (item.day, item.kind, item.model)
            figures[key] = figures.get(key, NOTHING) + item.figures
    return figures


def count(found, name):
    return sum(getattr(item.counts, name) for item in found.items)


def test_each_pass_counts_for_the_model_that_ran(path, record):
    record(
        {"cost_items": (*make_items(model="m"), *make_items(model="advisor", pass_index=1))},
        {"cost_items": make_items(model="m")},
    )
    tokens = TokenCounts(1, 5, 7, 2)
    found = figures_of(read(path))
    assert found.keys() == {(DAY, TOKENS, "m"), (DAY, TOKENS, "advisor")}
    assert found[DAY, TOKENS, "advisor"].tokens == tokens
    assert found[DAY, TOKENS, "advisor"].cost_cents == 5
    assert found[DAY, TOKENS, "m"].tokens == tokens + tokens
    assert found[DAY, TOKENS, "m"].cost_cents == 10
    assert count(read(path), "calls") == 2


def test_web_searches_stand_apart_from_the_model(path, record):
    search = make_item(component="web_search", quantity=3, cents=Decimal(3), model="m")
    record({"cost_items": (*make_items(), search)})
    found = figures_of(read(path))
    assert found[DAY, WEB_SEARCH, None].web_search_requests == 3
    assert found[DAY, WEB_SEARCH, None].cost_cents == 3
    assert found[DAY, TOKENS, "m"].web_search_requests == 0
    assert found[DAY, TOKENS, "m"].cost_cents == 5


def test_days_are_utc_and_both_included(path, record):
    record(
        *(
            {"created_at": created_at, "cost_items": make_items(model=created_at)}
            for created_at in (
                "2026-01-01T23:59:59.999Z",
                "2026-01-02T00:00:00.000Z",
                "2026-01-03T23:59:59.999Z",
                "2026-01-04T00:00:00.000Z",
            )
        )
    )
    found = figures_of(read(path, DAY, date(2026, 1, 3)))
    assert {key[2][:10] for key in found} == {"2026-01-02", "2026-01-03"}


def test_calls_whose_cost_is_uncertain_are_counted_once_each(path, record):
    record(
        {"cost_items": make_items(cents=None)},
        {"cost_items": make_items(), "usage_source": "partial", "outcome": "client_disconnected"},
        {"cost_items": (), "usage_source": "none", "outcome": "upstream_timeout", "model": None},
        {"cost_items": (), "usage_source": "none", "outcome": "upstream_unreachable"},
        {"cost_items": (), "usage_source": "none", "outcome": "upstream_error"},
    )
    found = read(path)
    assert count(found, "calls") == 5
    assert count(found, "unpriced") == 1
    assert count(found, "cut") == 1
    assert count(found, "no_response") == 1
    assert (count(found, "estimated"), count(found, "not_billed")) == (0, 0)


def test_days_that_retention_emptied_are_read_from_the_hourly_sums(path, record):
    record({"cost_items": make_items(), "model": "top"}, {"model": "top"})
    record({"created_at": "2026-01-03T12:00:00.000Z", "cost_items": make_items(model="kept")})
    with TraceDatabase(path) as traces:
        traces.prune(before="2026-01-03T00:00:00.000Z", max_bytes=None)
    found = read(path, DAY, date(2026, 1, 3))
    figures = figures_of(found)
    assert figures.keys() == {
        (DAY, TOKENS, "m"),
        (DAY, TOKENS, "top"),
        (date(2026, 1, 3), TOKENS, "kept"),
    }
    assert figures[DAY, TOKENS, "m"].tokens == TokenCounts(1, 5, 7, 2)
    assert figures[DAY, TOKENS, "m"].cost_cents == 5
    assert figures[DAY, TOKENS, "top"].tokens == TokenCounts(10, 20, 30, 40)
    assert figures[DAY, TOKENS, "top"].cost_cents == Decimal("1.25")
    assert count(found, "calls") == 3
    assert found.notes == (Cause(name="pruned", calls=2),)


def test_a_day_of_which_some_entries_are_left_is_not_counted_twice(path, record):
    record({}, {"created_at": "2026-01-02T13:00:00.000Z"})
    with TraceDatabase(path) as traces:
        traces.prune(before="2026-01-02T12:30:00.000Z", max_bytes=None)
    found = read(path)
    assert count(found, "calls") == 2
    assert sum(item.figures.cost_cents for item in found.items) == Decimal("2.5")
    assert found.notes == (Cause(name="pruned", calls=1),)


def prune(path):
    with TraceDatabase(path) as traces:
        traces.prune(before="2026-01-03T00:00:00.000Z", max_bytes=None)


@pytest.mark.parametrize(
    ("billing", "overage"),
    [("customer", None), ("subscription", None), ("subscription", False), ("subscription", True)],
)
def test_calls_that_the_organisation_of_the_key_does_not_pay_are_left_out_and_said(
    path, record, billing, overage
):
    """Also what paid extra usage covers: it is not in the reports of the API either."""
    record(
        {"cost_items": make_items(), "billing": billing, "overage": overage},
        {"cost_items": make_items(model="paid"), "billing": "api_key"},
    )
    found = read(path)
    assert figures_of(found).keys() == {(DAY, TOKENS, "paid")}
    assert found.notes == (Cause(name=billing, calls=1, cost_cents=Decimal(5)),)
    prune(path)
    assert figures_of(read(path)) == figures_of(found)
    assert read(path).notes == (*found.notes, Cause(name="pruned", calls=2))


def test_hourly_sums_have_web_searches_and_their_cost_apart_from_the_model(path, record):
    model = "claude-sonnet-4-5"
    search = make_item(component="web_search", quantity=3, cents=Decimal(3), model=model)
    unpriced = make_item(component="web_search", quantity=2, cents=None, model="none")
    record(
        {"cost_items": (*make_items(model=model), search)},
        {"cost_items": (*make_items(model="none", cents=None), unpriced), "cost_cents": None},
    )
    before = figures_of(read(path))
    prune(path)
    found = figures_of(read(path))
    assert found == before
    assert found[DAY, TOKENS, model].cost_cents == 5
    assert found[DAY, WEB_SEARCH, None] == Figures(web_search_requests=5, cost_cents=Decimal(3))


def test_hourly_sums_count_the_calls_without_a_response(path, record):
    record({"cost_items": (), "usage_source": "none", "outcome": "upstream_timeout"})
    prune(path)
    assert count(read(path), "no_response") == 1


def test_calls_to_another_upstream_organisation_are_left_out_and_said(path, record):
    record(
        {"cost_items": make_items(model="not known")},
        {"cost_items": make_items(), "upstream_organization_id": "theirs"},
    )
    assert len(figures_of(read(path, organization="theirs"))) == 2
    assert len(figures_of(read(path, organization=None))) == 2
    found = read(path, organization="ours")
    assert figures_of(found).keys() == {(DAY, TOKENS, "not known")}
    assert found.notes == (Cause(name="other_organization", calls=1, cost_cents=Decimal(5)),)


def test_calls_to_an_upstream_of_an_endpoint_are_left_out_and_said(path, record):
    record({"cost_items": make_items()}, {"cost_items": make_items(), "upstream": "eu"})
    found = read(path)
    assert count(found, "calls") == 1
    assert found.notes == (Cause(name="other_upstream", calls=1, cost_cents=Decimal(5)),)


def test_workspaces_estimates_and_unbilled_passes_are_read_where_they_are_known(path, record):
    items = [
        each._replace(estimated=True, unbilled_reason="refused_before_output")
        for each in make_items()
    ]
    record({"cost_items": items, "workspace_id": "wrkspc_01"})
    found = read(path)
    assert {item.workspace_id for item in found.items} == {"wrkspc_01"}
    assert (count(found, "estimated"), count(found, "not_billed")) == (1, 1)


def test_before_anything_was_recorded_there_is_nothing(path):
    assert read(path) == RecordedUsage()
    path.touch()
    assert read(path) == RecordedUsage()


def test_a_file_that_is_no_database_is_an_error(path):
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(sqlite3.Error):
        read(path)


def test_results_of_batches_are_told_apart(path, record):
    record({"cost_items": make_items()}, {"cost_items": make_items(), "product": "batch"})
    found = [item for item in read(path).items if item.figures.has_counts]
    assert sorted(item.is_batch for item in found) == [False, True]
