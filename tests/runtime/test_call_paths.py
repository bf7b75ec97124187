"""Reading calls is told apart from all else."""

import pytest

from runtime.call_paths import is_of_calls


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/", True),
        ("HEAD", "/overview.json", True),
        ("GET", "/live/events", True),
        ("GET", "/api/usage", True),
        ("GET", "/api/calls", True),
        ("POST", "/traces/usage/7/replay/check", True),
        ("GET", "/traces/usage/7/replay/ticket", False),
        ("GET", "/settings", False),
        ("GET", "/reconciliation", False),
        ("GET", "/metrics", True),
        ("GET", "/sign-in", False),
        ("GET", "/sessionsx", False),
        ("GET", "/api/api-keys", False),
        ("PUT", "/api/budget", False),
        ("POST", "/api/erasures", False),
        ("POST", "/", False),
    ],
)
def test_reading_calls_is_forwarded_and_nothing_else(method, path, expected):
    assert is_of_calls(method, path) == expected


def test_counting_what_would_be_erased_is_forwarded_and_the_order_is_not():
    assert is_of_calls("POST", "/api/erasures", is_dry_run=True)
    assert not is_of_calls("POST", "/api/budget", is_dry_run=True)
