"""A clock on which no day, month or hour ends during a test, and no list of prices grows old.

What is shown and added up by days is otherwise another thing when midnight comes between two looks at the
clock, on the last day of a month, or a year after the test was written. A test of such a boundary sets
``clock.now`` itself.
"""

import time
from datetime import UTC, datetime, tzinfo
from types import SimpleNamespace

import pytest

from runtime import clock

BEGINS = datetime(2026, 11, 25, 12, 20, tzinfo=UTC)
"""A Wednesday in the middle of a month, with most of its hour to come."""


@pytest.fixture
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of this process go on from the same instant in each test.

    It is set below ``clock.now``, to which others have references of their own, and ``clock.new_id``."""
    offset = BEGINS - datetime.now(UTC)
    offset_ns = round(offset.total_seconds() * 1e9)

    def now(zone: tzinfo) -> datetime:
        return datetime.now(zone) + offset

    dates = SimpleNamespace(now=now, fromisoformat=datetime.fromisoformat)
    monkeypatch.setattr(clock, "datetime", dates)
    times = SimpleNamespace(time_ns=lambda: time.time_ns() + offset_ns)
    monkeypatch.setattr(clock, "time", times)
