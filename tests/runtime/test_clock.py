from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from runtime import clock

INSTANT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_an_instant_is_written_in_two_shapes():
    assert clock.format_ms(INSTANT) == "2026-01-02T03:04:05.678Z"
    assert clock.format_seconds(INSTANT) == "2026-01-02T03:04:05Z"


def test_other_zones_are_written_in_utc():
    there = INSTANT.astimezone(timezone(timedelta(hours=5)))
    assert clock.format_ms(there) == "2026-01-02T03:04:05.678Z"
    assert clock.format_minute(there) == "2026-01-02 03:04"
    assert clock.format_line_time(there) == "2026-01-02 03:04:05Z"


@pytest.mark.parametrize("text", ["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05Z"])
def test_both_shapes_are_read_back(text):
    assert text in (
        clock.format_ms(clock.parse_instant(text)),
        clock.format_seconds(clock.parse_instant(text)),
    )


def test_ids_are_unique_uuids_of_version_7_that_sort_by_time(monkeypatch):
    """Also those that are a quarter of a microsecond apart, across milliseconds and seconds."""
    times_ns = iter(range(1_767_323_045_999_900_000, 1_767_323_046_000_150_000, 250))
    monkeypatch.setattr(clock, "time", SimpleNamespace(time_ns=lambda: next(times_ns)))
    ids = [clock.new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(i[14] == "7" and i[19] in "89ab" and len(i) == 36 for i in ids)
    assert ids == sorted(ids)


def test_ids_of_one_instant_differ(monkeypatch):
    monkeypatch.setattr(clock, "time", SimpleNamespace(time_ns=lambda: 1_767_323_045_999_900_000))
    assert len({clock.new_id() for _ in range(100)}) == 100
