"""Made-up rate limits for the scripted upstream, in response headers like those of the real one."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

REQUESTS, INPUT_TOKENS, CALL_TOKENS = 50, 40_000, 1_000
RETRY_AFTER_S = 1
MINUTE, FIVE_HOURS, WEEK = timedelta(minutes=1), timedelta(hours=5), timedelta(days=7)
SHARES = {"5h": 0.04, "7d": 0.007}
"""The share of a subscription's windows that a call takes."""
_TOKEN = "Bearer sk-ant-oat"  # noqa: S105 - how the credential of a subscription begins
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class RateLimits:
    """Counts the calls of each credential against requests in a minute, or a subscription's windows."""

    def __init__(self) -> None:
        self._calls: defaultdict[str, list[datetime]] = defaultdict(list)

    def count(self, headers: Mapping[str, str], status: int, at: datetime) -> dict[str, str]:
        """Count a call with these request headers, and return the response headers on its limits."""
        token = headers.get("authorization", "")
        calls = self._calls[token or headers.get("x-api-key", "")]
        calls.append(at)
        is_subscription = token.startswith(_TOKEN)
        stated = _state_windows(calls, at) if is_subscription else _state_limits(calls, status, at)
        named = {f"anthropic-ratelimit-{name}": value for name, value in stated.items()}
        return named | ({"retry-after": str(RETRY_AFTER_S)} if status in (429, 529) else {})


def _state_limits(calls: list[datetime], status: int, at: datetime) -> dict[str, str]:
    count = sum(each > at - MINUTE for each in calls)
    reset = f"{at + MINUTE:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "requests-limit": str(REQUESTS),
        "requests-remaining": str(0 if status == 429 else max(REQUESTS - count, 0)),
        "requests-reset": reset,
        "input-tokens-limit": str(INPUT_TOKENS),
        "input-tokens-remaining": str(max(INPUT_TOKENS - count * CALL_TOKENS, 0)),
        "input-tokens-reset": reset,
    }


def _state_windows(calls: list[datetime], at: datetime) -> dict[str, str]:
    stated = {"unified-status": "allowed", "unified-representative-claim": "five_hour"}
    for name, length in (("5h", FIVE_HOURS), ("7d", WEEK)):
        begin = at - (at - _BEGINNING) % length
        used = min(sum(each >= begin for each in calls) * SHARES[name], 1)
        stated |= {
            f"unified-{name}-status": "allowed",
            f"unified-{name}-utilization": f"{used:.3f}",
            f"unified-{name}-reset": str(int((begin + length).timestamp())),
        }
    return stated
