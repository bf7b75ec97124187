from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from dashboard import moments
from dashboard.moments import describe_moment, format_moment

NOW = datetime(2026, 11, 23, 15, 20, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        (datetime(2026, 11, 23, 14, 2, tzinfo=UTC), "14:02"),
        (datetime(2026, 11, 22, 23, 59, tzinfo=UTC), "Sun 22"),
        (datetime(2026, 11, 17, 0, 0, tzinfo=UTC), "Tue 17"),
        (datetime(2026, 11, 16, 23, 59, tzinfo=UTC), "2026-11-16"),
        (datetime(2025, 11, 23, 15, 0, tzinfo=UTC), "2025-11-23"),
        (datetime(2026, 11, 23, 16, 40, tzinfo=UTC), "16:40"),
        (datetime(2026, 11, 24, 1, 0, tzinfo=UTC), "2026-11-24"),
    ],
)
def test_a_time_is_as_short_as_its_reader_needs(instant, words):
    assert describe_moment(instant, NOW, UTC) == words


def test_days_are_those_of_the_zone():
    late = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
    assert describe_moment(late, NOW, ZoneInfo("Europe/Berlin")) == "00:30"


def test_machines_and_the_pointer_get_the_exact_time(monkeypatch):
    monkeypatch.setattr(moments, "now", lambda: NOW)
    text = format_moment("2026-11-23T14:02:10.250Z", "Europe/Berlin")
    assert text == '<time datetime="2026-11-23T14:02:10.250Z">15:02</time>'
    assert format_moment(None) == "—"
