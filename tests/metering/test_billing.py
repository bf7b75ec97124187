import pytest

from metering.billing import classify_credential, find_billing
from metering.rate_limits import RateLimits

UNIFIED = RateLimits(unified_status="allowed")
PER_MINUTE = RateLimits(input_tokens_limit=1)


@pytest.mark.parametrize(
    ("credential", "kind"),
    [
        (b"sk-ant-oat01-x", "token"),
        (b"sk-ant-api03-x", "api_key"),
        (b"sk-ant-x", "api_key"),
        (b"sk-1234", "other"),
        (b"a sk-ant-api03", "other"),
        (b"\xff", "other"),
    ],
)
def test_the_kind_of_a_credential_is_how_it_begins(credential, kind):
    assert classify_credential(credential) == kind


@pytest.mark.parametrize(
    ("kind", "limits", "billing"),
    [
        ("token", UNIFIED, "subscription"),
        ("token", None, "subscription"),
        ("token", RateLimits(retry_after_s=5), "subscription"),
        ("token", PER_MINUTE, "api_key"),  # of workload identity federation
        ("api_key", None, "api_key"),
        ("api_key", UNIFIED, "api_key"),
        ("other", None, None),
        ("other", RateLimits(retry_after_s=5), None),
        ("other", PER_MINUTE, "api_key"),
        ("other", UNIFIED, "subscription"),
        (None, None, None),
        (None, UNIFIED, "subscription"),
    ],
)
def test_limits_tell_what_the_credential_does_not(kind, limits, billing):
    assert find_billing(kind, limits) == billing
