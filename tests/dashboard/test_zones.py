"""Times on pages are those of the organisation's zone, wherever the page is made."""

import re
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from runtime import clock
from runtime.clock import parse_instant
from store.control import budgets
from tests.dashboard.live.following import Proxy
from tests.dashboard.pages import words_of

ZONE = "Pacific/Auckland"  # thirteen hours before UTC in January
AT = "2026-01-01T23:30:10.000Z"
TIMES = re.compile(r'<time[^>]* datetime="([^"]+)"[^>]*>(.*?)</time>')


@pytest.fixture
def today():
    return date(2026, 11, 28)


@pytest.fixture
def kiwi(ann):
    """Ann, with a session of two calls on the last evening of 2025 and New Year's Day, in UTC."""
    with ann.control.transaction() as db:
        budgets.set_time_zone(db, ann.organization_id, ZONE)
    ann.record({"created_at": "2026-01-01T10:30:00.000Z"}, {"created_at": AT}, session_id="s")
    return ann


def times_of(page):
    """The instants of a page, each with what is written for it."""
    assert page.status_code == 200
    return {instant: words_of(words) for instant, words in TIMES.findall(page.text)}


def test_lists_have_times_of_the_zone(kiwi):
    page = kiwi.get("/calls?period=all")
    assert "Time (Pacific/Auckland)" in words_of(page.text)
    assert times_of(page) == {
        "2026-01-01T10:30:00.000Z": "2026-01-01 23:30",
        AT: "2026-01-02 12:30",
    }
    assert list(times_of(kiwi.get("/sessions")).values()) == ["2026-01-02 12:30"]
    assert times_of(kiwi.get("/"))["2026-01-01T10:30:00.000Z"] == "2026-01-01 23:30"


def test_a_session_and_its_file_are_told_in_the_zone(kiwi):
    page = kiwi.get("/sessions/s")
    assert "1 Jan, 23:30 to Fri 2 Jan, 12:30 NZDT" in words_of(page.text)
    assert times_of(page)[AT] == "12:30:10"
    assert times_of(kiwi.get("/sessions/s/calls"))[AT] == "12:30:10"
    signed_in: dict[str, str] = {}
    for headers in (signed_in, kiwi.bearer):
        file = kiwi.get("/sessions/s/export.html", **headers)
        assert times_of(file)[AT] == "12:30:10"
        assert "from 2026-01-01 23:30:00 NZDT to 2026-01-02 12:30:10 NZDT" in words_of(file.text)


def test_pages_of_query_processes_have_times_of_the_zone(kiwi):
    assert times_of(kiwi.get("/calls/2"))[AT] == "Fri 2 Jan, 12:30:10 NZDT"


def test_calls_in_flight_have_times_of_the_zone(kiwi, settings, monkeypatch):
    monkeypatch.setattr("dashboard.live.in_flight.FRESH_S", 0)
    proxy = Proxy(settings.spool_path)
    try:
        proxy.begin(kiwi.organization_id, b'{"model": "x", "messages": []}')
        [(instant, words)] = (
            (instant, words)
            for instant, words in times_of(kiwi.get("/calls?period=all")).items()
            if not instant.startswith("2026-01-0")
        )
    finally:
        proxy.close()
    assert words == f"{parse_instant(instant).astimezone(ZoneInfo(ZONE)):%H:%M:%S}"


def test_settings_have_times_of_the_zone(kiwi, monkeypatch):
    kiwi.post("/settings/budgets", limit_usd="5", period="day", action="warn")
    monkeypatch.setattr("dashboard.moments.now", lambda: clock.now() + timedelta(days=30))
    found = times_of(kiwi.get("/settings/security"))
    assert found
    for instant, words in found.items():
        assert words == f"{parse_instant(instant).astimezone(ZoneInfo(ZONE)):%Y-%m-%d %H:%M}"
    assert "00:00 NZ" in words_of(kiwi.get("/settings/budgets").text)


def test_an_unknown_zone_is_utc_on_pages_too(kiwi):
    with kiwi.control.transaction() as db:
        db.execute("update organizations set time_zone = 'Mars/Olympus'")
    assert "Time (UTC)" in words_of(kiwi.get("/calls?period=all").text)
    assert times_of(kiwi.get("/calls/2"))[AT] == "Thu 1 Jan, 23:30:10 UTC"


def test_days_of_charts_are_named_as_those_of_utc(kiwi):
    kiwi.record(created_at=clock.format_ms(clock.now()))
    page = words_of(kiwi.get("/").text)
    assert "US dollars per day, UTC." in page
