from metering.rate_limits import RateLimits
from store.traces.calls.rate_limits import read_limits
from store.traces.sums.rollup import MAX_CREDENTIALS
from tests.store.traffic import make_entry

LIMITS = RateLimits(
    requests_limit=50,
    requests_remaining=40,
    requests_reset_at="2026-01-02T03:05:00Z",
    input_tokens_limit=1000,
    input_tokens_remaining=0,
    unified_5h_utilization=1.02,
    unified_claim="overage",
    overage_in_use=True,
    retry_after_s=7.0,
    other='{"x":"1"}',
)
HOUR = (
    "select calls, rate_limited, overloaded, retries, retry_after_s, requests_share, tokens_share,"
    " input_tokens_share, output_tokens_share, unified_5h_share, unified_7d_share"
    " from rate_limits_hourly"
)


def hours(traces):
    return traces.connection.execute(f"{HOUR} order by hour, credential_hmac").fetchall()


def test_limits_come_back_as_they_were_stored(traces):
    traces.insert([make_entry(rate_limits=LIMITS), make_entry()])
    assert read_limits(traces.connection, 1) == LIMITS
    assert read_limits(traces.connection, 2) is None


def test_of_an_hour_the_lowest_remaining_share_is_kept(traces):
    low = LIMITS._replace(requests_remaining=5, input_tokens_limit=None)
    high = RateLimits(requests_limit=50, requests_remaining=60, output_tokens_limit=0)
    traces.insert([make_entry(rate_limits=LIMITS), make_entry(rate_limits=high), make_entry()])
    traces.insert([make_entry(rate_limits=low)])
    traces.insert(
        [make_entry(rate_limits=RateLimits(output_tokens_limit=4, output_tokens_remaining=1))]
    )
    assert hours(traces) == [(5, 0, 0, 0, 0.0, 0.1, None, 0.0, 0.25, 0.0, None)]


def test_hours_and_credentials_are_apart(traces):
    traces.insert(
        [
            make_entry(credential_hmac="a"),
            make_entry(credential_hmac="b"),
            make_entry(credential_hmac="b", created_at="2026-01-02T04:00:00.000Z"),
        ]
    )
    assert [row[0] for row in hours(traces)] == [1, 1, 1]


def test_after_many_credentials_of_an_hour_the_rest_share_a_row(traces):
    """Clients may make credentials up, and these rows stay."""
    limits = MAX_CREDENTIALS
    names = [f"{number:03}" for number in range(limits + 3)]
    traces.insert([make_entry(credential_hmac=name) for name in names[:-2]])
    traces.insert([make_entry(credential_hmac=name) for name in [*names[-2:], None, names[0]]])
    traces.insert([make_entry(credential_hmac=names[-1], created_at="2026-01-02T04:00:00.000Z")])
    rows = traces.connection.execute(
        "select substr(hour, 12), credential_hmac, calls from rate_limits_hourly"
        " where credential_hmac not between '001' and '099' order by 1, 2"
    ).fetchall()
    assert rows == [("03", "", 1), ("03", "(other)", 3), ("03", "000", 2), ("04", "102", 1)]
    ((count,),) = traces.connection.execute("select count(*) from rate_limits_hourly")
    assert count == limits + 3


def test_refusals_and_retries_are_counted_and_the_pauses_added_up(traces):
    wait = RateLimits(retry_after_s=2.5)
    failed = {"outcome": "upstream_error", "rate_limits": wait}
    traces.insert(
        [
            make_entry(status_code=429, **failed),
            make_entry(status_code=529, retry_count=1, **failed),
            make_entry(status_code=529, outcome="upstream_error", retry_count=2),
            make_entry(status_code=200, rate_limits=wait, retry_count=0),
            make_entry(status_code=None),
        ]
    )
    assert hours(traces)[0][:5] == (5, 1, 2, 2, 5.0)


def test_retention_removes_those_of_the_calls(traces):
    traces.insert([make_entry(rate_limits=LIMITS)])
    traces.prune(before="2027", pause=lambda _: None)
    assert read_limits(traces.connection, 1) is None
    assert list(traces.verify()) == []
