"""A week of an account with two devices, replayed against the formula worked out by hand.

Only the calls of one device pass here. The other one uses the windows unseen, also at night, so that shares
jump between two calls. A 5-hour window begins with a message, the week is reset in its middle, and the first
response after a reset still states the share of before.
"""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import pytest

from metering.rate_limits import parse_limits
from runtime import clock
from store.traces.calls.limit_readings import read_states
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
WEEK_RESET = datetime(2026, 11, 19, 13, 0, tzinfo=UTC)
LENGTHS = {"5h": timedelta(hours=5), "7d": timedelta(days=7)}
LATELY = {"5h": timedelta(hours=1), "7d": timedelta(days=1)}
MINUTE = timedelta(minutes=1)


class Reading(NamedTuple):
    """A share that a response stated, and the one that was used in truth."""

    at: datetime
    resets_at: datetime
    used: float
    truth: float


class Account:
    """The windows as the upstream keeps them."""

    def __init__(self) -> None:
        self.used = {"5h": 0.0, "7d": 0.4}
        self.stated = dict(self.used)
        self.resets_at = {"5h": MONDAY, "7d": WEEK_RESET}

    def use(self, at: datetime, share: float) -> None:
        """Begin windows that have ended, and use a share of each."""
        if at >= self.resets_at["5h"]:
            self.used["5h"] = 0.0
            self.resets_at["5h"] = at.replace(minute=0) + LENGTHS["5h"]
        if at >= self.resets_at["7d"]:
            self.used["7d"] = 0.0
            self.resets_at["7d"] += LENGTHS["7d"]
        self.used["5h"] += share
        self.used["7d"] += share / 12

    def state(self, at: datetime, before: dict[str, Reading]) -> dict[str, Reading]:
        """Return what a response states: right after a reset still the share of before."""
        found = {}
        for window, used in self.used.items():
            last = before.get(window)
            is_first = last is not None and last.resets_at != self.resets_at[window]
            stated = last.used if last is not None and is_first else round(used, 2)
            found[window] = Reading(at, self.resets_at[window], stated, used)
        return found


def make_week() -> list[dict[str, Reading]]:
    """Return what each response of the first device stated, in its order."""
    dice, account = random.Random(7), Account()  # noqa: S311 - made-up traffic
    readings: list[dict[str, Reading]] = []
    at = MONDAY
    while at < MONDAY + timedelta(days=7):
        at += dice.choice((2, 3, 5, 8, 21)) * MINUTE
        is_day = 9 <= at.hour < 18 and at.weekday() < 6
        if is_day and dice.random() < 0.4:  # the other device
            account.use(at, dice.random() * (0.2 if at.weekday() == 1 else 0.04))
        elif at.hour == 2 and dice.random() < 0.1:
            account.use(at, 0.1)
        if is_day and dice.random() < 0.6:
            account.use(at, dice.random() * 0.02)
            readings.append(account.state(at, readings[-1] if readings else {}))
    return readings


WEEK = make_week()


def expect(window: str, seen: list[Reading], now: datetime) -> tuple[float | None, datetime | None]:
    """Return what is left at most and when it is used up, by the formula: written down anew."""
    newest = seen[-1]
    if now >= newest.resets_at:
        return None, None
    of_window = [each for each in seen if each.resets_at == newest.resets_at]
    before = [each for each in seen if each.resets_at != newest.resets_at]
    u, t = newest.used, newest.at
    if len(of_window) == 1 and before and before[-1].used == u and u >= 0.03:
        return None, None  # it may be the share of the window before
    left = max(0.0, 1 - u)
    if u >= 1:
        return left, t
    if u < 0.03:
        return left, None
    since = t - LATELY[window]
    # A share that is above the newest is still that of the window before.
    own = [each for each in of_window if each.used <= u]
    lately = [each for each in own if each.at >= since]
    first = lately[0]
    # It stood at that share already when the hour or the day began.
    began = since if any(e.at < since and e.used == first.used for e in own) else first.at
    rate = None
    if round(u - first.used, 6) >= 0.03 and t - began >= 10 * MINUTE:
        rate = (u - first.used) / (t - began).total_seconds()
    else:
        gone_s = (t - (newest.resets_at - LENGTHS[window])).total_seconds()
        rate = u / gone_s if gone_s > 0 else None
    if rate is None:
        return left, None
    end = t + timedelta(seconds=(1 - u) / rate)
    return left, end if end < newest.resets_at else None


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """The states after each response and at three instants without one, with all that was seen by then."""
    found = []
    with TraceDatabase(tmp_path_factory.mktemp("week") / "traces.db") as traces:
        for number, stated in enumerate(WEEK):
            headers = {"unified-status": "allowed"}
            for window, each in stated.items():
                headers[f"unified-{window}-utilization"] = f"{each.used}"
                headers[f"unified-{window}-reset"] = f"{int(each.resets_at.timestamp())}"
            limits = parse_limits(headers)
            assert limits is not None
            at = stated["5h"].at
            traces.insert(
                [
                    make_entry(
                        created_at=clock.format_ms(at),
                        ttfb_ms=0.0,
                        rate_limits=limits._replace(account="a" * 32),
                        # Its token is renewed every few hours.
                        credential_hmac=f"{number // 20:032x}",
                    )
                ]
            )
            for wait in (timedelta(0), 9 * MINUTE, timedelta(hours=3), timedelta(hours=15)):
                now = at + wait
                if number % 5 == 0 or not wait:
                    states = {each.window: each for each in read_states(traces.connection, now)}
                    found.append((number, now, states))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("window", ["5h", "7d"])
def test_each_instant_of_a_week_is_as_the_formula_has_it(replayed, window):
    for number, now, states in replayed:
        seen = [each[window] for each in WEEK[: number + 1]]
        left, end = expect(window, seen, now)
        state = states[window]
        assert (state.read_at, state.resets_at) == (seen[-1].at, seen[-1].resets_at)
        assert state.used == seen[-1].used
        assert state.left == (None if left is None else pytest.approx(left))
        if end is None:
            assert state.used_up_at is None, (number, now)
        else:
            assert state.used_up_at is not None, (number, now)
            assert abs(state.used_up_at - end) < timedelta(seconds=1)


def test_what_is_left_at_most_is_never_too_little_once_a_window_is_known(replayed):
    for number, _, states in replayed:
        for window, state in states.items():
            reading = WEEK[number][window]
            is_stale = abs(reading.used - reading.truth) > 0.006  # of the window before
            if state.left is not None and not is_stale:
                assert state.left >= max(0.0, 1 - reading.truth) - 0.006


def test_the_week_has_what_makes_it_hard(replayed):
    fives = {each["5h"].resets_at for each in WEEK}
    assert len(fives) > 10
    assert {each["7d"].resets_at for each in WEEK} == {WEEK_RESET, WEEK_RESET + timedelta(days=7)}
    states = [state for _, _, found in replayed for state in found.values()]
    assert any(state.left is None for state in states)  # reset since, or perhaps of before
    assert any(state.used >= 1 for state in states)
    assert any(state.used_up_at and state.used < 1 for state in states)
    assert any(state.used > 0.03 and state.used_up_at is None for state in states)
    gaps = [b["5h"].at - a["5h"].at for a, b in pairwise(WEEK)]
    assert max(gaps) > timedelta(hours=14)  # idle nights
    assert {state.account for state in states} == {"a" * 32}
