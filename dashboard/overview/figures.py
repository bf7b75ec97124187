"""The figures of an overview in words, as its page shows them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.addresses import session_address
from dashboard.overview.drawings import Key, make_keys
from dashboard.overview.reading import Overview, Percentiles
from metering.formats import (
    UNKNOWN,
    format_cache_share,
    format_calls,
    format_cents,
    format_count,
    format_duration,
    format_share,
    format_tokens,
)
from metering.token_counts import PROMPT_CLASSES
from store.traces.sums.forecast import Month
from store.traces.sums.rollup import PAID_BY_OTHERS
from store.traces.sums.usage_report import Totals

_NOT_FAILED = "complete,client_disconnected"
MEASURES = {
    "ttfb_ms": "First byte",
    "duration_ms": "Duration",
    "proxy_overhead_ms": "Proxy overhead",
    "output_tokens_per_s": "Tokens per second",
}
_SHARES = {
    "requests_share": "requests per minute",
    "tokens_share": "tokens per minute",
    "input_tokens_share": "input tokens per minute",
    "output_tokens_share": "output tokens per minute",
    "unified_5h_share": "5-hour limit",
    "unified_7d_share": "7-day limit",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its label, the calls behind it, and lines of smaller text, which may have links."""

    label: str
    text: str
    href: str | None = None
    notes: Sequence[tuple[str, str | None]] = ()
    title: str | None = None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The line of a group: its key, its totals and its percentiles. ``page`` is that of a session."""

    key: Key
    totals: Totals
    share: str
    percentiles: Sequence[tuple[str, str]]
    page: str | None = None


def make_figures(overview: Overview, calls: Callable[..., str | None]) -> Sequence[Figure]:
    """Return the figures. ``calls`` returns the address of the calls, with further conditions."""
    now, before = overview.totals, overview.before
    return [
        Figure("Cost", format_cents(now.cost_cents), calls(), _describe_cost(overview, calls)),
        Figure("Calls", format_count(now.calls), calls(), _compare(now, before, _count_calls)),
        _make_tokens_in(now),
        Figure(
            "Tokens out",
            format_tokens(now.tokens.output_tokens),
            title=format_count(now.tokens.output_tokens),
            notes=_compare(now, before, _count_output),
        ),
        Figure(
            "Errors",
            format_count(now.errors),
            calls(outcome__notin=_NOT_FAILED) if now.errors else None,
            [
                (f"{format_share(now.errors, now.calls)} of calls", None),
                *_describe_refused(overview),
            ],
        ),
        *(_make_percentiles(overview, name) for name in MEASURES),
        _make_headroom(overview),
    ]


def make_month(month: Month | None) -> Sequence[Figure]:
    """Return the figures of the current month, none where they are not known."""
    if month is None:
        return ()
    cost, spend = month.cost, month.spend
    covered = cost.so_far - spend.so_far > 1e-6

    def note(cents: float | None) -> Sequence[tuple[str, None]]:
        return (
            [(f"{format_cents(cents)} of it spend", None)] if covered and cents is not None else []
        )

    return [
        Figure("Month so far", format_cents(cost.so_far), notes=note(spend.so_far)),
        Figure("Expected month end", format_cents(cost.expected), notes=note(spend.expected)),
    ]


def make_groups(overview: Overview) -> Sequence[GroupRow]:
    """Return a line for each group, also for those that are in the rest of the charts."""
    groups = overview.series.listed
    rows = []
    for group, key in zip(groups, make_keys(overview, groups), strict=True):
        found = overview.find_percentiles(group.name)
        rows.append(
            GroupRow(
                key,
                group.totals,
                format_share(group.totals.cost_cents, overview.totals.cost_cents),
                [_format_pair(name, None if found is None else found[name]) for name in MEASURES],
                session_address(group.name)
                if group.name is not None and group.name in overview.titles
                else None,
            )
        )
    return rows


def format_change(now: float, before: float) -> str:
    """Return how a figure has changed since the period before, in per cent with a sign."""
    if not before:
        return "none in the period before"
    percent = round(100 * (now - before) / before)
    return f"{percent:+,}% on the period before" if percent else "as in the period before"


def _format_pair(measure: str, found: Percentiles | None) -> tuple[str, str]:
    """Return the median and the 95th percentile of a measure."""
    if found is None:
        return UNKNOWN, UNKNOWN
    return _format_measure(measure, found.p50), _format_measure(measure, found.p95)


def _format_measure(measure: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if measure == "output_tokens_per_s":
        return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"
    return format_duration(value) if value >= 9.5 else f"{value:.1f} ms"


def _compare(
    now: Totals, before: Totals | None, read: Callable[[Totals], float]
) -> Sequence[tuple[str, None]]:
    if before is None:
        return []
    return [(format_change(read(now), read(before)), None)]


def _cost(totals: Totals) -> float:
    return totals.cost_cents


def _count_calls(totals: Totals) -> float:
    return totals.calls


def _count_output(totals: Totals) -> float:
    return totals.tokens.output_tokens or 0


def _describe_cost(
    overview: Overview, calls: Callable[..., str | None]
) -> Sequence[tuple[str, str | None]]:
    now, before = overview.totals, overview.before
    notes: list[tuple[str, str | None]] = [*_compare(now, before, _cost)]
    if now.estimated_cents:
        estimated = calls(usage_source="estimated")
        notes.append((f"of which {format_cents(now.estimated_cents)} estimated", estimated))
    if now.value_cents:
        covered = (
            calls(billing__in=",".join(PAID_BY_OTHERS))
            if "billing" not in overview.filters.values
            else None
        )
        notes.append((f"{format_cents(now.spend_cents)} spend", None))
        notes.append((f"{format_cents(now.value_cents)} not billed to you", covered))
    if now.unpriced:
        words = "call" if now.unpriced == 1 else "calls"
        notes.append(
            (f"{format_count(now.unpriced)} {words} without a price", "/traces/unpriced_models")
        )
    return notes


def _make_tokens_in(totals: Totals) -> Figure:
    notes = [(f"{format_cache_share(totals.tokens)} from cache", None)]
    notes += [
        (f"{format_tokens(getattr(totals.tokens, each.name))} {each.title.lower()}", None)
        for each in PROMPT_CLASSES
    ]
    prompt = totals.tokens.prompt
    return Figure("Tokens in", format_tokens(prompt), notes=notes, title=format_count(prompt))


def _describe_refused(overview: Overview) -> Sequence[tuple[str, str | None]]:
    if overview.rejected is None:
        return []
    words = "request" if overview.rejected == 1 else "requests"
    link = "/traces/rate_limited" if overview.rejected else None
    return [(f"{format_count(overview.rejected)} {words} rejected by our limit", link)]


def _make_percentiles(overview: Overview, measure: str) -> Figure:
    found = overview.percentiles[measure]
    if not found.calls:
        return Figure(MEASURES[measure], UNKNOWN, notes=[("no call has it", None)])
    return Figure(
        MEASURES[measure],
        _format_measure(measure, found.p50),
        notes=[
            ("median", None),
            (f"{_format_measure(measure, found.p95)} 95th percentile", None),
            (f"of {format_calls(found.calls)}", None),
        ],
    )


def _make_headroom(overview: Overview) -> Figure:
    shares = overview.headroom
    if shares is None:
        return Figure("Lowest headroom", UNKNOWN, notes=[("kept by credential alone", None)])
    if not shares:
        return Figure("Lowest headroom", UNKNOWN, notes=[("no limits were stated", None)])
    name, share = min(shares.items(), key=lambda each: each[1])
    return Figure(
        "Lowest headroom",
        format_share(share, 1),
        "/traces/rate_limit_headroom",
        [(f"of {_SHARES[name]} left", None)],
    )
