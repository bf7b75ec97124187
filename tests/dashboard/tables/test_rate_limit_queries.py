"""The canned queries over the rate limits of the upstream."""

import pytest

from metering.rate_limits import RateLimits
from runtime import clock

LOW = RateLimits(requests_limit=50, requests_remaining=5, unified_5h_utilization=0.25)
WAIT = RateLimits(retry_after_s=2.5)


@pytest.fixture
def read(client, ann):
    """Returns the rows of a query over some calls of one hour."""
    failed = {"outcome": "upstream_error", "credential_hmac": "c1"}
    ann.record(
        {"rate_limits": LOW, "credential_hmac": "c1"},
        {"rate_limits": WAIT, "status_code": 429, **failed},
        {"rate_limits": WAIT, "status_code": 529, "retry_count": 1, **failed},
        {"credential_hmac": "c2"},
        created_at=clock.format_ms(clock.now()),
    )

    async def read_one(name):
        address = f"/traces/{name}.json?_shape=array"
        return (await client.get(address, headers=ann.cookie)).json()

    return read_one


async def test_headroom_is_the_lowest_that_remained_of_each_limit(read):
    (row,) = await read("rate_limit_headroom")
    assert (row["credential_hmac"], row["calls"]) == ("c1", 3)
    assert (row["requests_percent"], row["subscription_5h_percent"]) == (10.0, 75.0)
    assert row["tokens_percent"] is None


async def test_refusals_are_counted_by_hour(read):
    (row,) = await read("upstream_refusals")
    del row["hour"]
    assert row == {
        "calls": 4,
        "rate_limited_429": 1,
        "overloaded_529": 1,
        "refused_percent": 50.0,
    }


async def test_the_pauses_asked_for_are_added_up(read):
    (row,) = await read("time_lost_waiting")
    assert (row["credential_hmac"], row["refused"]) == ("c1", 2)
    assert (row["retries"], row["asked_to_wait_s"]) == (1, 5.0)
