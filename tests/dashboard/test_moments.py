from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from jinja2 import Environment

from dashboard import moments
from dashboard.moments import (
    describe_moment,
    find_zone,
    format_clock,
    format_exact,
    format_listed,
    format_moment,
    format_span,
    format_stamp,
)

NOW = datetime(2026, 11, 23, 15, 20, tzinfo=UTC)  # a Monday
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


@pytest.fixture(autouse=True)
def _at_a_fixed_time(monkeypatch):
    monkeypatch.setattr(moments, "now", lambda: NOW)


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
    assert describe_moment(instant, NOW) == words


@pytest.mark.parametrize(
    ("zone", "instant", "words"),
    [
        (BERLIN, datetime(2026, 11, 22, 23, 30, tzinfo=UTC), "00:30"),
        (BERLIN, datetime(2026, 11, 22, 22, 30, tzinfo=UTC), "Sun 22"),
        (BERLIN, datetime(2026, 11, 16, 23, 30, tzinfo=UTC), "Tue 17"),
        (BERLIN, datetime(2026, 11, 16, 22, 30, tzinfo=UTC), "2026-11-16"),
        (NEW_YORK, datetime(2026, 11, 23, 4, 30, tzinfo=UTC), "Sun 22"),
        (NEW_YORK, datetime(2026, 11, 23, 5, 30, tzinfo=UTC), "00:30"),
        (NEW_YORK, datetime(2026, 11, 17, 4, 30, tzinfo=UTC), "2026-11-16"),
    ],
)
def test_today_and_this_week_are_those_of_the_zone(zone, instant, words):
    assert describe_moment(instant, NOW.astimezone(zone)) == words


def test_machines_and_the_pointer_get_the_exact_time():
    text = format_moment("2026-11-23T14:02:10.250Z", zone=BERLIN)
    assert text == '<time datetime="2026-11-23T14:02:10.250Z">15:02</time>'
    assert format_moment(None, zone=BERLIN) == "—"
    text = format_listed("2026-11-22T23:30:00.000Z", zone=BERLIN)
    assert text == '<time datetime="2026-11-22T23:30:00.000Z">00:30</time>'
    text = format_listed("2026-11-22T22:30:00.000Z", zone=BERLIN)
    assert text == (
        '<time datetime="2026-11-22T22:30:00.000Z">Sun 22<span class="hide-s"> 23:30</span></time>'
    )
    text = format_stamp("2026-12-31T23:30:05.000Z", zone=BERLIN)
    assert text == '<time datetime="2026-12-31T23:30:05.000Z">2027-01-01 00:30:05 CET</time>'


@pytest.mark.parametrize(
    ("zone", "stored", "clock", "exact"),
    [
        (BERLIN, "2026-10-25T00:30:00Z", "02:30:00", "Sun 25 Oct, 02:30:00 CEST"),
        (BERLIN, "2026-10-25T01:30:00Z", "02:30:00", "Sun 25 Oct, 02:30:00 CET"),
        (NEW_YORK, "2026-03-08T06:59:59Z", "01:59:59", "Sun 8 Mar, 01:59:59 EST"),
        (NEW_YORK, "2026-03-08T07:00:00Z", "03:00:00", "Sun 8 Mar, 03:00:00 EDT"),
        (NEW_YORK, "2026-01-01T04:59:59Z", "23:59:59", "Wed 31 Dec 2025, 23:59:59 EST"),
        (ZoneInfo("America/Sao_Paulo"), "2026-11-23T02:00:00Z", "23:00:00", "Sun 22 Nov, 23:00:00 UTC-03"),
        (UTC, "2026-11-23T02:00:00Z", "02:00:00", "Mon 23 Nov, 02:00:00 UTC"),
    ],
)  # fmt: skip
def test_times_follow_the_clocks_of_the_zone(zone, stored, clock, exact):
    assert format_clock(stored, zone=zone) == clock
    assert format_exact(stored, zone=zone) == exact


def test_a_span_names_both_ends_where_they_differ():
    span = format_span("2026-11-23T22:30:00Z", "2026-11-23T23:30:00Z", zone=BERLIN)
    assert span == "Mon 23 Nov, 23:30 to Tue 24 Nov, 00:30 CET"
    span = format_span("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", zone=BERLIN)
    assert span == "Sun 25 Oct, 02:30 CEST to 02:30 CET"
    span = format_span("2026-11-23T22:30:00Z", "2026-11-23T22:30:59Z", zone=BERLIN)
    assert span == "Mon 23 Nov, 23:30 CET"


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "Europe", "a\0b"])
def test_an_unknown_zone_is_utc(name):
    assert str(find_zone(name)) == "UTC"


def test_an_instant_without_a_date_in_the_zone_is_shown_in_utc():
    text = format_stamp("9999-12-31T23:30:00Z", zone=BERLIN)
    assert ">9999-12-31 23:30:00 UTC<" in text


def test_no_template_forgets_the_zone():
    environment = Environment(autoescape=True)
    environment.filters.update(moments.FILTERS)
    template = environment.from_string("{{ '2026-11-23T14:02:10Z' | clock }}")
    assert template.render(zone=BERLIN) == "15:02:10"
    with pytest.raises(KeyError):
        template.render()
