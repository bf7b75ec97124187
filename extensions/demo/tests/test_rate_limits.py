"""The rate limits of the scripted upstream, read as those of the real one."""

from datetime import UTC, datetime

import pytest

from extensions.demo.rate_limits import (
    FIVE_HOURS,
    MINUTE,
    REQUESTS,
    RETRY_AFTER_S,
    SHARES,
    RateLimits,
)
from metering.billing import find_billing
from metering.rate_limits import RateLimits as Stated, collect_limits, parse_limits

KEY = {"x-api-key": "demo"}
TOKEN = {"authorization": "Bearer sk-ant-oat01-demo"}
NOON = datetime(2026, 7, 7, 12, tzinfo=UTC)


def read(headers: dict[str, str]) -> Stated:
    named = {name.encode(): value.encode() for name, value in headers.items()}
    stated = parse_limits(collect_limits(named, b"anthropic-ratelimit-"))
    assert stated
    return stated


def test_each_call_of_a_key_takes_one_of_the_requests_of_its_minute():
    limits = RateLimits()
    remaining = [read(limits.count(KEY, 200, NOON)).requests_remaining for _ in range(3)]
    assert remaining == [REQUESTS - 1, REQUESTS - 2, REQUESTS - 3]
    other = read(limits.count({"x-api-key": "other"}, 200, NOON))
    assert (other.requests_remaining, other.retry_after_s) == (REQUESTS - 1, None)
    assert read(limits.count(KEY, 200, NOON + MINUTE)).requests_remaining == REQUESTS - 1


def test_a_call_over_the_limit_has_nothing_left_and_a_time_to_wait():
    reached = read(RateLimits().count(KEY, 429, NOON))
    assert (reached.requests_remaining, reached.retry_after_s) == (0, RETRY_AFTER_S)


def test_a_token_has_the_windows_of_a_subscription_which_begin_anew():
    limits = RateLimits()
    first, second = (read(limits.count(TOKEN, 200, NOON)) for _ in range(2))
    later = read(limits.count(TOKEN, 200, NOON + FIVE_HOURS))
    assert find_billing("token", first) == "subscription"
    used = [each.unified_5h_utilization for each in (first, second, later)]
    assert used == pytest.approx([SHARES["5h"], 2 * SHARES["5h"], SHARES["5h"]])
    assert later.unified_7d_utilization == pytest.approx(3 * SHARES["7d"])
    assert first.is_overage is False
