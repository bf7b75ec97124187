"""The rate limits and the client's hints (headers) as facts on the page of a call."""

from collections.abc import Iterator, Mapping

from dashboard.call.fact import Fact, Group, calls_address
from metering.client_hints import TRACE_ID
from metering.formats import UNKNOWN, format_count
from metering.rate_limits import Limit, RateLimits
from runtime import clock
from wire.json_reading import as_text, parse_object

_HINTS = {
    "x-claude-code-agent-type": "Agent type",
    "x-claude-code-compaction": "Compaction",
    "x-claude-code-context-compacted": "Context compacted",
    "x-claude-code-prev-tool-durations": "Tool durations before, ms",
    "x-litellm-session-id": "LiteLLM session",
    "x-litellm-trace-id": "LiteLLM trace",
    "x-litellm-tags": "LiteLLM tags",
    "x-session-id": "x-session-id",
    "session-id": "session-id",
    TRACE_ID: "Trace id",
}
# What upstream calls the limits of a subscription, as they are called here.
_CLAIMS = {
    "five_hour": "5 hours",
    "seven_day": "7 days",
    "seven_day_overage_included": "7 days with extra usage",
    "overage": "extra usage",
}


# The fields of ``RateLimits`` with these beginnings, by what a page calls them.
_PER_MINUTE = {
    "requests": "Requests",
    "tokens": "Tokens",
    "input_tokens": "Input tokens",
    "output_tokens": "Output tokens",
}
_WINDOWS = {
    "unified_5h": "Subscription, 5 hours",
    "unified_7d": "Subscription, 7 days",
    "unified_7d_oi": "Subscription, 7 days with extra usage",
    "overage": "Extra usage",
}
_REFUSED_FOR: Mapping[Limit, str] = {
    "window": "a window of the subscription, which is used up",
    "minute": "a limit of a minute",
    "throttle": "a short throttle: no limit is stated",
}


def list_hints(hints: str | None) -> Iterator[Fact]:
    """Yield facts of the client's headers that have no column of their own. ``hints`` is a JSON object."""
    found = parse_object((hints or "").encode()) or {}
    return (Fact(label, as_text(found[name])) for name, label in _HINTS.items() if name in found)


def list_limits(limits: RateLimits | None, limited_by: Limit | None) -> Iterator[Group]:
    """Yield one group of facts about rate limits, or nothing if the response stated none."""
    facts = () if limits is None else tuple(_list_stated(limits))
    if limited_by is not None:
        address = calls_address("limited_by", limited_by)
        facts = (Fact("Refused for", _REFUSED_FOR[limited_by], address), *facts)
    if facts:
        yield Group(title="Rate limits", facts=facts)


def _list_stated(limits: RateLimits) -> Iterator[Fact]:
    for name, label in _PER_MINUTE.items():
        limit, remaining = (getattr(limits, f"{name}_{end}") for end in ("limit", "remaining"))
        if limit is not None or remaining is not None:
            text = f"{format_count(remaining)} of {format_count(limit)} remain"
            yield _make_fact(f"{label} per minute", text, getattr(limits, f"{name}_reset_at"))
    for name, label in _WINDOWS.items():
        used, status = (getattr(limits, f"{name}_{end}") for end in ("utilization", "status"))
        if used is not None or status is not None:
            yield _make_fact(label, _used(used, status), getattr(limits, f"{name}_reset_at"))
    if limits.unified_status is not None:
        yield Fact("Subscription status", limits.unified_status)
    if limits.unified_claim is not None:
        claim = limits.unified_claim
        yield Fact("Limit that counts most", _CLAIMS.get(claim, claim))
    if limits.retry_after_s is not None:
        yield Fact("Retry after", f"{limits.retry_after_s:g} s")


def _used(share: float | None, status: str | None) -> str:
    parts = (None if share is None else f"{share:.0%} used", status)
    return ", ".join(part for part in parts if part) or UNKNOWN


def _make_fact(label: str, text: str, reset_at: str | None) -> Fact:
    """Return a rate limit as a fact, with the time when it resets if that is known."""
    if reset_at is None:
        return Fact(label, text)
    return Fact(label, text, note="resets", at=clock.parse_instant(reset_at))
