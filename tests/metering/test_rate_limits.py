import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from metering.rate_limits import (
    MAX_HEADERS,
    MAX_VALUE_CHARS,
    RateLimits,
    collect_limits,
    find_limit,
    parse_limits,
)

# As captured in August 2025 and April 2026.
PER_MINUTE = {
    "anthropic-ratelimit-input-tokens-limit": "80000",
    "anthropic-ratelimit-input-tokens-remaining": "79000",
    "anthropic-ratelimit-input-tokens-reset": "2025-08-21T12:40:59Z",
    "anthropic-ratelimit-output-tokens-limit": "16000",
    "anthropic-ratelimit-output-tokens-remaining": "16000",
    "anthropic-ratelimit-output-tokens-reset": "2025-08-21T12:41:00Z",
    "anthropic-ratelimit-requests-limit": "1000",
    "anthropic-ratelimit-requests-remaining": "999",
    "anthropic-ratelimit-requests-reset": "2025-08-21T12:40:59Z",
    "anthropic-ratelimit-tokens-limit": "96000",
    "anthropic-ratelimit-tokens-remaining": "95000",
    "anthropic-ratelimit-tokens-reset": "2025-08-21T12:40:59Z",
    "content-type": "application/json",
}
UNIFIED = {
    "anthropic-ratelimit-unified-status": "allowed",
    "anthropic-ratelimit-unified-5h-status": "allowed",
    "anthropic-ratelimit-unified-5h-utilization": "0.26",
    "anthropic-ratelimit-unified-5h-reset": "1775455200",
    "anthropic-ratelimit-unified-7d-utilization": "1.02",
    "anthropic-ratelimit-unified-7d-reset": "1775973600",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "anthropic-ratelimit-unified-fallback-percentage": "0.5",
    "anthropic-ratelimit-unified-overage-status": "allowed",
    "anthropic-ratelimit-unified-overage-utilization": "0.0",
}


RECEIVED_S = datetime(2026, 11, 22, 4, 0, 28, 500_000, tzinfo=UTC).timestamp()


def read(headers, prefix="anthropic", received_s=None):
    named = {name.encode(): value.encode() for name, value in headers.items()}
    return parse_limits(collect_limits(named, f"{prefix}-ratelimit-".encode()), received_s)


def test_limits_per_minute_are_read():
    limits = read(PER_MINUTE)
    assert limits == RateLimits(
        requests_limit=1000,
        requests_remaining=999,
        requests_reset_at="2025-08-21T12:40:59Z",
        tokens_limit=96_000,
        tokens_remaining=95_000,
        tokens_reset_at="2025-08-21T12:40:59Z",
        input_tokens_limit=80_000,
        input_tokens_remaining=79_000,
        input_tokens_reset_at="2025-08-21T12:40:59Z",
        output_tokens_limit=16_000,
        output_tokens_remaining=16_000,
        output_tokens_reset_at="2025-08-21T12:41:00Z",
    )
    assert (limits.is_per_minute, limits.is_unified, limits.is_overage) == (True, False, None)


def test_limits_of_a_subscription_are_read():
    limits = read(UNIFIED)
    assert limits == RateLimits(
        unified_status="allowed",
        unified_claim="five_hour",
        unified_5h_status="allowed",
        unified_5h_utilization=0.26,
        unified_5h_reset_at="2026-04-06T06:00:00Z",
        unified_7d_utilization=1.02,
        unified_7d_reset_at="2026-04-12T06:00:00Z",
        overage_status="allowed",
        overage_utilization=0.0,
        other='{"unified-fallback-percentage":"0.5"}',
    )
    assert (limits.is_per_minute, limits.is_unified, limits.is_overage) == (False, True, False)


def test_the_week_with_extra_usage_is_read():
    stated = {
        "anthropic-ratelimit-unified-7d_oi-status": "rejected",
        "anthropic-ratelimit-unified-7d_oi-utilization": "1.0",
        "anthropic-ratelimit-unified-7d_oi-reset": "1775973600",
        "anthropic-ratelimit-unified-overage-reset": "1777593600",
    }
    limits = read(stated)
    assert limits == RateLimits(
        unified_7d_oi_status="rejected",
        unified_7d_oi_utilization=1.0,
        unified_7d_oi_reset_at="2026-04-12T06:00:00Z",
        overage_reset_at="2026-05-01T00:00:00Z",
    )
    assert limits.is_unified


@pytest.mark.parametrize("text", ["-0.0", "-0", "-0.00", "0.0"])
def test_a_share_a_little_below_nothing_is_nothing(text):
    limits = read({"anthropic-ratelimit-unified-5h-utilization": text})
    assert limits is not None
    assert str(limits.unified_5h_utilization) == "0.0"


@pytest.mark.parametrize("text", ["-0.01", "-", "-0.", "--0", "-00"])
def test_a_share_below_nothing_is_missing(text):
    assert read({"anthropic-ratelimit-unified-5h-utilization": text}) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"anthropic-ratelimit-unified-representative-claim": "overage"},
        {"anthropic-ratelimit-unified-overage-in-use": "true"},
    ],
)
def test_extra_usage_is_told_from_what_the_subscription_covers(changes):
    limits = read(UNIFIED | changes)
    assert limits is not None
    assert limits.is_overage


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 2),
        ({"retry-after": "soon", "retry-after-ms": "1500"}, 1.5),
    ],
)
def test_the_pause_that_is_asked_for_is_read(headers, seconds):
    assert read(headers) == RateLimits(retry_after_s=seconds)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-31T14:03:27Z", "2026-01-31T14:03:27Z"),
        ("2026-01-31T14:03:27.5Z", "2026-01-31T14:03:27Z"),
        ("2026-01-31T14:03:27+02:00", "2026-01-31T12:03:27Z"),
        ("2026-W05-6T14:03:27Z", "2026-01-31T14:03:27Z"),
        ("1769868207", "2026-01-31T14:03:27Z"),
        ("2026-02-31T14:03:27Z", None),
        ("2026-01-31T14:03:27", None),
        ("2026-01-31", None),
        ("0001-01-01T00:00:00+10:00", None),
        ("999999999999", None),
    ],
)
def test_instants_are_stored_in_one_form(text, instant):
    limits = read({"anthropic-ratelimit-tokens-reset": text})
    assert (limits and limits.tokens_reset_at) == instant


WORDS = [name for name in UNIFIED if name.endswith(("-status", "-claim"))]
OTHER = "anthropic-ratelimit-unified-fallback-percentage"
VALUES = [name for name in (*PER_MINUTE, *UNIFIED) if name not in (*WORDS, OTHER)]
HOSTILE = ["-1", "1e400", "-nan", "-inf", "+1", "", " ", "x" * 10_000, "9" * 40, "\x00", "٣", "1;2"]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_that_is_none_is_missing(value):
    for name in (*VALUES, *WORDS, "retry-after", "retry-after-ms"):
        assert read({name: value}) is None, name


@pytest.mark.parametrize("value", ["nan", "inf", "Infinity", "today"])
def test_a_word_is_no_number(value):
    for name in (*VALUES, "retry-after", "retry-after-ms"):
        assert read({name: value}) is None, name


@pytest.mark.parametrize("value", ["\x00", "\x1b[31m", "ü", "x" * (MAX_VALUE_CHARS + 1)])
def test_a_header_that_is_not_known_is_kept_only_if_it_can_be_shown(value):
    assert read({OTHER: value}) is None


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/html"}, {"x-ratelimit-limit": "1"}])
def test_a_response_without_limits_has_none(headers):
    assert read(headers) is None


def test_limits_belong_to_the_vendor():
    assert read(UNIFIED, "acme") is None


def test_of_very_many_headers_those_with_a_column_are_kept():
    many = {f"anthropic-ratelimit-a{number}": "1" for number in range(1_000)} | PER_MINUTE
    limits = read(many)
    assert limits is not None
    assert limits.requests_limit == 1000
    assert len(json.loads(limits.other or "")) == MAX_HEADERS - 12


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "Sun, 22 Nov 2026 04:00:30 GMT"}, 1.5),
        ({"retry-after": "Sunday, 22-Nov-26 04:00:30 GMT"}, 1.5),
        ({"retry-after": "Sun Nov 22 04:00:30 2026"}, 1.5),
        ({"retry-after": "Sun, 22 Nov 2026 04:00:00 GMT"}, 0),  # over already
        ({"retry-after": "Sun, 22 Nov 2026 04:00:30 GMT", "retry-after-ms": "1700"}, 1.7),
    ],
)
def test_a_pause_until_a_date_is_counted_from_the_response(headers, seconds):
    assert read(headers, received_s=RECEIVED_S) == RateLimits(retry_after_s=seconds)


@pytest.mark.parametrize("text", ["soon", "Sun, 22 Nov 99999 04:00:30 GMT", "Sun, 40 Nov 2026"])
def test_a_date_that_is_none_is_missing(text):
    assert read({"retry-after": text}, received_s=RECEIVED_S) is None


def test_a_date_says_nothing_where_the_time_of_the_response_is_unknown():
    assert read({"retry-after": "Sun, 22 Nov 2026 04:00:30 GMT"}) is None


@given(st.dictionaries(st.sampled_from([*PER_MINUTE, *UNIFIED, "retry-after"]), st.text()))
def test_any_text_is_read(headers):
    limits = read(headers, received_s=RECEIVED_S)
    assert limits is None or isinstance(limits, RateLimits)


@pytest.mark.parametrize(
    ("status", "limits", "found"),
    [
        (429, RateLimits(unified_status="rejected", unified_claim="five_hour"), "window"),
        (429, RateLimits(unified_7d_oi_utilization=1.0), "window"),
        (429, RateLimits(requests_limit=50, requests_remaining=0), "minute"),
        (429, RateLimits(retry_after_s=2.0), "throttle"),
        (429, None, "throttle"),
        (200, RateLimits(unified_status="allowed"), None),
        (529, None, None),
        (None, None, None),
    ],
)
def test_a_refusal_for_a_window_is_told_from_a_short_throttle(status, limits, found):
    assert find_limit(status, limits) == found
