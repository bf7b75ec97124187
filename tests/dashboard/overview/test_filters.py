"""The addresses of the calls behind a mark of an overview."""

from datetime import UTC, datetime

import pytest
from httpx import URL

from dashboard.call_filters import parse_call_filters
from dashboard.overview.filters import Filters, calls_address, step_address
from dashboard.overview.periods import parse_span
from runtime.intervals import Interval
from store.traces.sums.requested_models import mark
from store.traces.sums.rollup import OTHER

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
NO_FILTERS = Filters()


def test_a_period_and_whole_days_are_named_as_days_and_hours_as_hours():
    assert calls_address(NO_FILTERS, parse_span("7d", NOW)) == "/calls?period=7d"
    for span, place, arguments in (
        ("7d", -1, "period=2026-03-14..2026-03-14"),
        ("2025-12-01..2026-03-14", 0, "period=2025-12-01..2025-12-07"),
        ("today", 0, "since=2026-03-14T00&until=2026-03-14T01"),
        ("today", -1, "since=2026-03-14T23&until=2026-03-15T00"),
    ):
        step = parse_span(span, NOW).steps[place]
        assert step_address(NO_FILTERS, step) == f"/calls?{arguments}"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("model", mark("opus"), f"Model {mark('opus')}"),
        ("endpoint", "a b&c", "Endpoint a b&c"),
        ("client", "", "Client none"),
        ("agent", "", "Agent main"),
        ("session", "unnamed-7", "Session unnamed-7"),
        ("billing", "overage", "Paid by overage"),
        ("user", "ann", "User ann"),
        ("tag", "team:search", "Tag team: search"),
        ("tag", "urgent", "Tag urgent"),
    ],
)
def test_the_list_of_calls_understands_every_filter(name, value, words):
    address = calls_address(Filters({name: value}), parse_span("7d", NOW))
    assert address is not None
    found = parse_call_filters(URL(address).params.multi_items(), NOW)
    assert found.describe() == f"7 days, {words}"


def test_the_rest_of_a_group_has_no_list():
    hour = Interval(NOW.replace(hour=3, minute=0), NOW.replace(hour=4, minute=0))
    rest = Filters({"client": OTHER})
    assert calls_address(rest, parse_span("7d", NOW)) is None
    assert step_address(rest, hour) is None
