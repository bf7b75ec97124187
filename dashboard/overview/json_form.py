"""An overview as a JSON object."""

from collections.abc import Mapping
from typing import Any

from dashboard.overview.filters import Name
from dashboard.overview.reading import Overview, Percentiles
from metering import token_counts
from runtime.clock import format_seconds
from runtime.intervals import Interval
from store.traces.sums.forecast import METHOD, Forecast, Month
from store.traces.sums.histograms import RESOLUTION
from store.traces.sums.requested_models import find_requested
from store.traces.sums.usage_report import Totals

_CENTS = 6  # decimals


def describe(overview: Overview) -> dict[str, Any]:
    """Return the overview with the names of the API. Times are UTC, cents US cents."""
    period, series = overview.period, overview.series
    return {
        "span": period.span,
        "from": period.first.isoformat(),
        "to": period.last.isoformat(),
        "time_zone": "UTC",
        "step": period.step,
        "by": overview.by,
        "filters": {name: value or None for name, value in overview.filters.values.items()},
        "complete_from": format_seconds(overview.back_to or period.elapsed.start),
        "totals": _describe_totals(overview.totals) | {"rejected": overview.rejected},
        "before": overview.before
        and _describe_interval(period.before) | _describe_totals(overview.before),
        "percentiles": _describe_percentiles(overview.percentiles),
        "percentile_resolution": RESOLUTION,
        "headroom": None if overview.headroom is None else dict(overview.headroom),
        "month": overview.month and _describe_month(overview.month),
        "groups": [
            _describe_name(overview.by, group.name)
            | _describe_totals(group.totals)
            | {
                "percentiles": None
                if (found := overview.find_percentiles(group.name)) is None
                else _describe_percentiles(found)
            }
            for group in series.listed
        ],
        "steps": [
            _describe_interval(step.time)
            | _describe_totals(step.totals)
            | {
                "groups": [
                    _describe_name(overview.by, group.name)
                    | {
                        "calls": totals.calls,
                        "cost_cents": round(totals.cost_cents, _CENTS),
                    }
                    for group, totals in zip(series.groups, step.groups, strict=True)
                ]
            }
            for step in series.steps
        ],
    }


def _describe_totals(totals: Totals) -> dict[str, Any]:
    prompt = totals.tokens.prompt
    read = totals.tokens.cache_read_input_tokens or 0
    return {
        "calls": totals.calls,
        "errors": totals.errors,
        "cost_cents": round(totals.cost_cents, _CENTS),
        "spend_cents": round(totals.spend_cents, _CENTS),
        "value_cents": round(totals.value_cents, _CENTS),
        "estimated_cents": round(totals.estimated_cents, _CENTS),
        "unpriced": totals.unpriced,
        "maybe_billed": totals.maybe_billed,
        **{name: getattr(totals.tokens, name) or 0 for name in token_counts.NAMES},
        "cache_share": round(read / prompt, 4) if prompt else None,
    }


def _describe_name(by: Name, name: str | None) -> dict[str, Any]:
    """Return a group's name: null where the calls name none. The rest of the groups is no group."""
    requested = find_requested(name or "") if by == "model" else None
    return {
        "name": None if requested is not None else name or None,
        "request_model": requested,
        "is_rest": name is None,
    }


def _describe_percentiles(found: Mapping[str, Percentiles]) -> dict[str, Any]:
    return {name: _describe_percentile(each) for name, each in found.items()}


def _describe_percentile(found: Percentiles) -> dict[str, Any]:
    return {
        "p50": None if found.p50 is None else round(found.p50, 3),
        "p95": None if found.p95 is None else round(found.p95, 3),
        "calls": found.calls,
    }


def _describe_interval(interval: Interval) -> dict[str, Any]:
    return {"start": format_seconds(interval.start), "end": format_seconds(interval.end)}


def _describe_month(month: Month) -> dict[str, Any]:
    return {
        "cost_cents": _describe_forecast(month.cost),
        "spend_cents": _describe_forecast(month.spend),
        "method": METHOD,
    }


def _describe_forecast(forecast: Forecast) -> dict[str, float | None]:
    expected = forecast.expected
    return {
        "so_far": round(forecast.so_far, _CENTS),
        "expected": None if expected is None else round(expected, _CENTS),
    }
