"""The numbers of calls of a period, from sums of days and hours."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from store.traces.sums.call_counts import CallCounts, count_calls
from store.traces.sums.overview_query import Query

START, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, 12, tzinfo=UTC)


@pytest.fixture
def db():
    with closing(sqlite3.connect(":memory:")) as db:
        for table, time in (("usage_daily", "day"), ("usage_hourly", "hour")):
            db.execute(
                f"create table {table} ({time} text, slug text, model text, client text,"
                " credential_hmac text, billing text, entries int, errors int, cost_cents real)"
            )
        db.executemany(
            "insert into usage_daily values (?, ?, ?, '', '', '', ?, ?, ?)",
            [("2026-10-31", "a", "m", 9, 9, 9.0), ("2026-11-01", "a", "m", 2, 1, 3.0)],
        )
        db.executemany(
            "insert into usage_hourly values (?, ?, ?, '', '', '', ?, ?, ?)",
            [
                ("2026-11-02T11", "b", "m", 4, 0, 5.0),
                ("2026-11-02T11", "a", "n", 1, 1, 0.5),
                ("2026-11-02T12", "a", "m", 9, 9, 9.0),
            ],
        )
        yield db


def test_days_and_hours_are_summed(db):
    assert count_calls(db, Query(start=START, end=END)) == {"": CallCounts(7, 2, 8.5)}


def test_values_of_a_column_come_in_the_order_of_their_calls(db):
    found = count_calls(db, Query(start=START, end=END, by="endpoint"))
    assert list(found.items()) == [("b", CallCounts(4, 0, 5.0)), ("a", CallCounts(3, 2, 3.5))]


def test_filters_hold(db):
    found = count_calls(db, Query(start=START, end=END, filters={"endpoint": "a", "model": "m"}))
    assert found == {"": CallCounts(2, 1, 3.0)}
    assert count_calls(db, Query(start=START, end=END, filters={"model": "none"})) == {}
