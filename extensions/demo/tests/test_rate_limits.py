"""The rate limits of the scripted upstream, read as those of the real one."""

from extensions.demo.rate_limits import REQUESTS, RETRY_AFTER_S, RateLimits
from metering.billing import find_billing
from metering.rate_limits import RateLimits as Stated, collect_limits, parse_limits

KEY = {"x-api-key": "demo"}
TOKEN = {"authorization": "Bearer sk-ant-oat01-demo"}


def read(headers: dict[str, str]) -> Stated:
    named = {name.encode(): value for name, value in headers.items()}
    stated = parse_limits(collect_limits(named, b"anthropic-ratelimit-"))
    assert stated
    return stated


def test_each_call_of_a_key_takes_one_of_its_requests():
    limits = RateLimits()
    remaining = [read(limits.count(KEY, 200)).requests_remaining for _ in range(3)]
    assert remaining == [REQUESTS - 1, REQUESTS - 2, REQUESTS - 3]
    other = read(limits.count({"x-api-key": "other"}, 200))
    assert (other.requests_remaining, other.retry_after_s) == (REQUESTS - 1, None)


def test_a_call_over_the_limit_has_nothing_left_and_a_time_to_wait():
    reached = read(RateLimits().count(KEY, 429))
    assert (reached.requests_remaining, reached.retry_after_s) == (0, RETRY_AFTER_S)


def test_a_token_has_the_windows_of_a_subscription():
    stated = read(RateLimits().count(TOKEN, 200))
    assert find_billing("token", stated) == "subscription"
    assert stated.unified_5h_utilization == 0.63
    assert stated.unified_7d_utilization == 0.311
    assert stated.is_overage is False
