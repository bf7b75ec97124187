"""The windows of a subscription: what is left of them, and when they are used up."""

from datetime import UTC, datetime, timedelta

import pytest

from metering.limit_windows import (
    Observation,
    Observed,
    Stated,
    find_length,
    find_state,
    fingerprint_account,
    list_stated,
    name_account,
)
from metering.rate_limits import RateLimits

START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)  # of a window
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
RESET = START + 5 * HOUR


def see(used, *minutes, status="allowed"):
    """A share that was stated so many minutes after the start, first and last."""
    first, last = minutes[0], minutes[-1]
    return Observation(
        used=used, status=status, first_at=START + first * MINUTE, last_at=START + last * MINUTE
    )


def look(*observations, at, window="5h", resets_at=RESET, used_before=None):
    """The window so many minutes after its start."""
    observed = Observed(
        account="a",
        window=window,
        resets_at=resets_at,
        observations=observations,
        used_before=used_before,
    )
    return find_state(observed, START + at * MINUTE)


def minutes_of(state):
    end = state.used_up_at
    return None if end is None else (end - START) / MINUTE


def test_what_is_left_is_the_rest_of_the_newest_share():
    state = look(see(0.2, 30), see(0.25, 60, 90, status="allowed_warning"), at=100)
    assert (state.used, state.left, state.status) == (0.25, 0.75, "allowed_warning")
    assert (state.read_at, state.resets_at) == (START + 90 * MINUTE, RESET)
    assert state.elapsed == pytest.approx(1 / 3)


@pytest.mark.parametrize(("used", "left"), [(0.0, 1.0), (1.0, 0.0), (1.07, 0.0)])
def test_never_less_than_nothing_is_left(used, left):
    assert look(see(used, 60), at=61).left == left


@pytest.mark.parametrize("at", [300, 301, 10_000])
def test_of_a_window_that_was_reset_nothing_is_known_until_the_next_call(at):
    state = look(see(0.9, 200, 280), at=at)
    assert (state.used, state.left, state.used_up_at, state.elapsed) == (0.9, None, None, 1.0)


def test_the_pace_is_that_of_the_last_hour():
    seen = [see(0.1, 10, 120), see(0.2, 150), see(0.46, 180)]
    # From 0.1 at 120 to 0.46 at 180, and 0.54 are left.
    assert minutes_of(look(*seen, at=181)) == pytest.approx(180 + 0.54 / 0.36 * 60)
    # From 0.2 at 150, as before that nothing was stated in the hour.
    assert minutes_of(look(*seen, see(0.5, 190), at=190)) == pytest.approx(190 + 0.5 / 0.3 * 40)


def test_a_share_that_stood_still_counts_from_the_beginning_of_the_hour():
    # Half an hour at 0.1 within the last hour, then 0.3 more.
    state = look(see(0.1, 10, 90), see(0.4, 120), at=120)
    assert minutes_of(state) == pytest.approx(120 + 0.6 / 0.3 * 60)


@pytest.mark.parametrize(
    "seen",
    [
        (see(0.5, 100, 100),),  # nothing to compare with
        (see(0.48, 70), see(0.5, 100)),  # it rose too little
        (see(0.3, 95), see(0.5, 100)),  # in too short a time
    ],
)
def test_with_too_little_of_the_last_hour_the_pace_is_that_of_the_window(seen):
    assert minutes_of(look(*seen, at=101)) == pytest.approx(200)


def test_a_window_that_lasts_until_its_reset_is_not_used_up():
    assert look(see(0.5, 200), at=201).used_up_at is None


@pytest.mark.parametrize("used", [0.0, 0.01, 0.02])
def test_of_a_small_share_no_end_is_foretold(used):
    assert look(see(used, 1), at=2).used_up_at is None


def test_a_window_that_is_used_up_was_so_when_that_was_stated():
    assert minutes_of(look(see(0.9, 100), see(1.02, 130), at=140)) == 130


def test_the_pace_of_a_week_is_that_of_its_last_day():
    day = 24 * 60
    week = {"window": "7d", "resets_at": START + timedelta(days=7)}
    state = look(see(0.1, 60), see(0.4, 3 * day), see(0.7, 4 * day), at=4 * day, **week)
    assert minutes_of(state) == pytest.approx(5 * day)


@pytest.mark.parametrize("window", ["overage", "monthly", "h", "0h", "7w"])
def test_without_a_length_no_end_is_foretold_unless_there_is_a_pace(window):
    state = look(see(0.2, 60), see(0.9, 100), at=101, window=window)
    assert (state.left, state.used_up_at, state.elapsed) == (pytest.approx(0.1), None, None)


def test_without_a_reset_what_is_left_is_known_and_its_end_is_not():
    state = look(see(0.5, 100), at=900, resets_at=None)
    assert (state.left, state.used_up_at, state.elapsed, state.resets_at) == (0.5, None, None, None)


def test_the_first_share_after_a_reset_may_be_that_of_the_window_before():
    seen = {"used_before": 0.9}
    assert look(see(0.9, 1), at=2, **seen).left is None
    assert look(see(0.9, 1), at=2, **seen).used_up_at is None
    # Another response says the same, or something else: then it is known.
    assert look(see(0.9, 1, 5), at=6, **seen).left == pytest.approx(0.1)
    assert look(see(0.9, 1), see(0.04, 20), at=21, **seen).left == 0.96
    assert look(see(0.01, 1), at=2, used_before=0.01).left == 0.99


def test_the_share_of_the_window_before_is_no_part_of_the_pace():
    state = look(see(0.9, 1), see(0.1, 20), see(0.4, 50), at=50, used_before=0.9)
    assert minutes_of(state) == pytest.approx(50 + 0.6 / 0.3 * 30)


@pytest.mark.parametrize(
    ("window", "hours"),
    [
        ("5h", 5),
        ("7d", 168),
        ("7d_oi", 168),
        ("7d_sonnet", 168),
        ("overage", None),
        ("5hours", None),
    ],
)
def test_a_window_is_as_long_as_it_is_named(window, hours):
    assert find_length(window) == (None if hours is None else hours * HOUR)


def test_the_windows_that_a_response_states_are_listed():
    limits = RateLimits(
        unified_5h_utilization=0.0,
        unified_5h_reset_at="2026-11-16T14:00:00Z",
        unified_5h_status="allowed",
        unified_7d_oi_utilization=1.01,
        unified_7d_status="allowed",
        overage_utilization=0.5,
        overage_status="rejected",
        other='{"unified-7d_sonnet-utilization":"0.25","unified-7d_sonnet-reset":"1763301600",'
        '"unified-7d_sonnet-status":"allowed","unified-x-utilization":"much","unified-y-reset":"1"}',
    )
    assert list_stated(limits) == [
        Stated("5h", 0.0, "2026-11-16T14:00:00Z", "allowed"),
        Stated("7d_oi", 1.01, None, None),
        Stated("overage", 0.5, None, "rejected"),
        Stated("7d_sonnet", 0.25, "2025-11-16T14:00:00Z", "allowed"),
    ]


def test_an_account_is_another_one_for_each_organisation():
    first, second = (fingerprint_account("account", name) for name in ("org-1", "org-2"))
    names = {name_account(first, None), name_account(first, "up-1"), name_account(second, "up-1")}
    assert len(names) == 3
    assert name_account(first, "up-1") == name_account(
        fingerprint_account("account", "org-1"), "up-1"
    )
    assert not any("account" in name for name in names)
