from datetime import UTC, date, datetime

import click
import pytest

from manage.cli.periods import Day, Instant
from runtime import clock


@pytest.fixture(autouse=True)
def _far_from_utc(far_from_utc):
    pass


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-31", "2026-01-31T00:00:00.000Z"),
        ("2026-01-31T18:00", "2026-01-31T18:00:00.000Z"),
        (" 2026-01-31 18:00:01.5 ", "2026-01-31T18:00:01.500Z"),
        ("2026-01-31T18:00+02:00", "2026-01-31T16:00:00.000Z"),
        ("2026-01-31T18:00Z", "2026-01-31T18:00:00.000Z"),
        ("30m", "2026-06-01T11:30:00.000Z"),
        ("12h", "2026-06-01T00:00:00.000Z"),
        ("7d", "2026-05-25T12:00:00.000Z"),
        ("2w", "2026-05-18T12:00:00.000Z"),
    ],
)
def test_a_time_is_a_day_a_point_or_how_long_ago(text, instant, monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 6, 1, 12, tzinfo=UTC))
    assert clock.format_ms(Instant().convert(text, None, None)) == instant


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7y", "-7d", "999999d", "2026-02-30"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(click.BadParameter, match="7d, 12h, 30m"):
        Instant().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "day"),
    [("2026-01-31", date(2026, 1, 31)), ("0d", date(2026, 5, 31)), ("2w", date(2026, 5, 17))],
)
def test_a_day_is_that_of_utc(text, day, monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 5, 31, 23, tzinfo=UTC))
    assert Day().convert(text, None, None) == day


@pytest.mark.parametrize("text", ["", "yesterday", "12h", "2026-01-31T18:00", "999999d"])
def test_anything_else_is_no_day(text):
    with pytest.raises(click.BadParameter, match="7d, 2w"):
        Day().convert(text, None, None)
