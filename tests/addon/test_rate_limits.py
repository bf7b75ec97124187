import pytest

from addon.destination import Destination
from addon.rate_limits import MESSAGES_PER_MINUTE, RateLimits
from tests.addon.endpoints import ENDPOINT


@pytest.fixture
def rejected():
    return []


@pytest.fixture
def limits(windows, rejected):
    return RateLimits(windows, lambda *rejection: rejected.append(rejection))


@pytest.mark.parametrize(
    ("destination", "limit"),
    [(Destination.MESSAGES, 300), (Destination.COUNT_TOKENS, 600), (Destination.OTHER, 600)],
)
def test_one_request_more_than_the_limit_is_refused_and_counted(
    limits, rejected, destination, limit
):
    assert {limits.admit(destination, ENDPOINT) for _ in range(limit)} == {None}
    assert rejected == []
    refusal = limits.admit(destination, ENDPOINT)
    assert (refusal.status, refusal.code) == (429, "rate_limited")
    assert 0 < int(dict(refusal.headers)[b"retry-after"]) <= 60
    assert rejected == [(ENDPOINT, destination)]


def test_each_kind_of_request_has_a_limit_of_its_own(limits):
    for _ in range(MESSAGES_PER_MINUTE + 1):
        limits.admit(Destination.MESSAGES, ENDPOINT)
    assert limits.admit(Destination.COUNT_TOKENS, ENDPOINT) is None
