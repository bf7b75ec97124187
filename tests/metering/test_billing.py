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


@pytest.mark.parametrize(
    ("bill_to", "status_code", "billing"),
    [
        ("user_profile", 200, "customer"),
        ("user_profile", 403, "api_key"),
        ("user_profile", None, "api_key"),
        ("self", 200, "api_key"),
        (None, 200, "api_key"),
    ],
)
def test_a_customer_pays_for_what_succeeded_alone(bill_to, status_code, billing):
    assert find_billing("api_key", None, bill_to=bill_to, status_code=status_code) == billing
    if billing == "customer":
        assert find_billing("token", UNIFIED, bill_to=bill_to, status_code=200) == billing
