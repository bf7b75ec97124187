"""The histograms of days added up by one name, against those by all names and against the calls."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from store.traces.sums import timing_groups
from store.traces.sums.overview_query import COLUMNS, Query
from store.traces.sums.overview_reader import OverviewReader
from tests.store.traces.sums.test_daily_sums import make_entries

PERIOD = Query(start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 5, tzinfo=UTC))
TODAY = "2026-01-04"  # of the four days of the calls the last, which is not over
QUERIES = [
    PERIOD,
    *(replace(PERIOD, by=name) for name in COLUMNS),
    replace(PERIOD, filters={"endpoint": "one"}),
    replace(PERIOD, filters={"endpoint": "one"}, by="endpoint"),
    replace(PERIOD, filters={"endpoint": "one"}, by="model"),
    replace(PERIOD, filters={"endpoint": "one", "billing": "api_key"}),
    replace(PERIOD, filters={"credential": "x"}),
    replace(PERIOD, start=PERIOD.start + timedelta(hours=30), end=PERIOD.end - timedelta(hours=20)),
    replace(PERIOD, end=PERIOD.start),
]


def add_up(traces, today=TODAY):
    count = 0
    while timing_groups.add_up_next(traces.connection, today):
        count += 1
    return count


def list_days(traces):
    return timing_groups.list_days(traces.connection, "2026-01-01", "2026-02-01")


def test_times_are_the_same_when_their_days_are_added_up(traces):
    traces.insert(make_entries())
    reader = OverviewReader(traces.connection)
    before = [(query, reader.read_timings(query)) for query in QUERIES]
    assert add_up(traces) == 3
    assert [(query, reader.read_timings(query)) for query in QUERIES] == before


def test_what_is_added_up_is_read_from_nowhere_else(traces):
    traces.insert(make_entries())
    whole_days = replace(PERIOD, end=PERIOD.end - timedelta(days=1))
    queries = [replace(whole_days, by=name) for name in (None, *COLUMNS)]
    reader = OverviewReader(traces.connection)
    before = [(query, reader.read_timings(query)) for query in queries]
    add_up(traces)
    traces.connection.execute("delete from timings_daily")
    assert [(query, reader.read_timings(query)) for query in queries] == before
    assert all(timings[0] for _, timings in before)


def test_days_that_are_not_over_are_left(traces):
    traces.insert(make_entries())
    assert add_up(traces, "2026-01-02") == 1
    assert list_days(traces) == ["2026-01-01"]
    assert add_up(traces, "2026-01-02") == 0
    assert add_up(traces, "2026-01-09") == 3


def test_a_call_that_is_stored_later_is_in_its_day(traces):
    first, *entries = make_entries()
    traces.insert(entries)
    add_up(traces)
    first = replace(first, created_at="2026-01-02T23:59:59.999Z")
    traces.insert([first])
    assert list_days(traces) == ["2026-01-01", "2026-01-03"]
    reader = OverviewReader(traces.connection)
    before = reader.read_timings(PERIOD)
    assert add_up(traces) == 1
    assert reader.read_timings(PERIOD) == before


def test_a_database_that_is_not_migrated_yet_has_its_times(traces):
    traces.insert(make_entries())
    before = OverviewReader(traces.connection).read_timings(PERIOD)
    add_up(traces)
    traces.connection.execute("drop table timings_by_group")
    assert OverviewReader(traces.connection).read_timings(PERIOD) == before
