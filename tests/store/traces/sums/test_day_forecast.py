"""The expected cost of a day."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from store.traces.database import TraceDatabase
from store.traces.sums.month import expect_day
from store.traces.sums.overview_query import Query
from store.traces.sums.overview_reader import OverviewReader
from tests.store.traffic import make_entry

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
ANY = Query(start=NOW, end=NOW)


@pytest.fixture
def traces(tmp_path):
    with TraceDatabase(tmp_path / "traces.db") as traces:
        yield traces


def record(traces, *calls):
    traces.insert(
        [
            make_entry(created_at=f"2026-03-{at}:00:00.000Z", cost_cents=Decimal(cents), **changes)
            for at, cents, changes in calls
        ]
    )


def test_the_hours_that_are_left_are_expected_as_on_the_last_days(traces):
    record(
        traces,
        ("10T09", 1_000, {}),  # an hour that is nearly over
        ("11T10", 40, {}),
        ("13T23", 60, {"slug": "other"}),
        ("14T01", 500, {}),
    )
    reader = OverviewReader(traces.connection)
    # The tenth was not a whole day, so it is none of the three.
    assert expect_day(reader, 500.0, NOW, ANY) == pytest.approx(500 + 100 / 3)
    filtered = Query(start=NOW, end=NOW, filters={"endpoint": "other"})
    assert expect_day(reader, 0.0, NOW, filtered) == pytest.approx(20)


def test_nothing_is_expected_without_a_day_of_calls(traces):
    reader = OverviewReader(traces.connection)
    assert expect_day(reader, 0.0, NOW, ANY) is None
    record(traces, ("13T11", 40, {}))
    assert expect_day(reader, 0.0, NOW, ANY) is None
