"""Made-up rate limits for the scripted upstream, in response headers like those of the real one."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

REQUESTS, INPUT_TOKENS, CALL_TOKENS = 50, 40_000, 1_000
RETRY_AFTER_S = 1
_PREFIX = "anthropic-ratelimit-"
_TOKEN = "Bearer sk-ant-oat"  # noqa: S105 - how the credential of a subscription begins


class RateLimits:
    """The allowance that each credential has left.

    A call takes a request and some tokens, or a part of the window of a subscription. Nothing is given back
    while the demo runs."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    def count(self, headers: Mapping[str, str], status: int) -> dict[str, str]:
        """Count a call with these request headers, and return the response headers on its limits."""
        token = headers.get("authorization", "")
        credential = token or headers.get("x-api-key", "")
        self._calls[credential] += 1
        calls = self._calls[credential]
        if token.startswith(_TOKEN):
            return {_PREFIX + name: value for name, value in _state_windows(calls).items()}
        stated = {
            _PREFIX + name: value for name, value in _state_limits(calls, status == 429).items()
        }
        return stated | {"retry-after": str(RETRY_AFTER_S)} if status in (429, 529) else stated


def _state_limits(calls: int, is_reached: bool) -> dict[str, str]:
    reset = f"{datetime.now(UTC) + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "requests-limit": str(REQUESTS),
        "requests-remaining": str(0 if is_reached else max(REQUESTS - calls, 0)),
        "requests-reset": reset,
        "input-tokens-limit": str(INPUT_TOKENS),
        "input-tokens-remaining": str(max(INPUT_TOKENS - calls * CALL_TOKENS, 0)),
        "input-tokens-reset": reset,
    }


def _state_windows(calls: int) -> dict[str, str]:
    now = datetime.now(UTC)
    return {
        "unified-status": "allowed",
        "unified-representative-claim": "five_hour",
        "unified-5h-status": "allowed",
        "unified-5h-utilization": f"{min(0.62 + calls / 100, 1):.2f}",
        "unified-5h-reset": str(int((now + timedelta(hours=3)).timestamp())),
        "unified-7d-status": "allowed",
        "unified-7d-utilization": f"{min(0.31 + calls / 1000, 1):.3f}",
        "unified-7d-reset": str(int((now + timedelta(days=4)).timestamp())),
    }
