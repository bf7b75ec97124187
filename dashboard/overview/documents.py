"""``/overview.json``: the models of its response. Times are UTC."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, create_model

from dashboard.overview.filters import Filters, Name
from dashboard.overview.periods import Period
from dashboard.overview.series import make_series
from metering import token_counts
from runtime.clock import format_seconds
from runtime.intervals import Interval
from store.json_models import Instant, ResponseModel, SumOfCents
from store.traces.sums import forecast
from store.traces.sums.histograms import RESOLUTION
from store.traces.sums.overview_query import Found
from store.traces.sums.product_model import UsageProduct
from store.traces.sums.products import ProductTotals
from store.traces.sums.requested_models import find_requested
from store.traces.sums.timings import NOTHING, Timing, find_percentiles
from store.traces.sums.usage_report import Totals

_Date = Annotated[str, Field(json_schema_extra={"format": "date"})]
_Measured = Annotated[float, AfterValidator(lambda value: round(value, 3))]


class Percentile(ResponseModel):
    p50: _Measured | None
    p95: _Measured | None
    calls: Annotated[int, Field(description="The number of calls that have this measure.")]


class OverviewForecast(ResponseModel):
    so_far: SumOfCents
    expected: SumOfCents | None


class OverviewMonth(ResponseModel):
    cost_cents: OverviewForecast
    spend_cents: OverviewForecast
    method: str

    @classmethod
    def make(cls, month: forecast.Month) -> Self:
        return cls(
            cost_cents=OverviewForecast.of(month.cost),
            spend_cents=OverviewForecast.of(month.spend),
            method=forecast.METHOD,
        )


class _Name(ResponseModel):
    name: Annotated[str | None, Field(description="null for calls without one.")]
    request_model: Annotated[
        str | None,
        Field(description="By model: the requested model of calls whose response named none."),
    ]
    is_rest: Annotated[
        bool, Field(description="Whether it is the sum of all groups that are not listed.")
    ]


class _Interval(ResponseModel):
    start: Instant
    end: Instant


class OverviewStepGroup(_Name):
    calls: int
    cost_cents: SumOfCents


class _Money(ResponseModel):
    calls: int
    errors: int
    cost_cents: SumOfCents
    spend_cents: SumOfCents
    value_cents: SumOfCents
    estimated_cents: SumOfCents
    unpriced: int
    maybe_billed: int
    cache_share: float | None


_TOKEN_FIELDS: dict[str, Any] = dict.fromkeys(token_counts.NAMES, int)


class _Sums(create_model("_MoneyAndTokens", __base__=_Money, **_TOKEN_FIELDS)):  # type: ignore[misc]  # made from the classes of tokens
    """The sums of calls: numbers, costs, and a field for each class of tokens."""

    @classmethod
    def make(cls, totals: Totals, **fields: object) -> Self:
        tokens = {name: getattr(totals.tokens, name) or 0 for name in token_counts.NAMES}
        prompt, read = totals.tokens.prompt, tokens["cache_read_input_tokens"]
        share = round(read / prompt, 4) if prompt else None
        made: Self = cls.of(totals, cache_share=share, **tokens, **fields)
        return made


class OverviewTotals(_Sums):
    rejected: Annotated[
        int | None, Field(description="Requests that our own limits refused; null if unknown.")
    ]


class OverviewBefore(_Interval, _Sums):
    """The sums of the period before."""


class OverviewGroup(_Name, _Sums):
    percentiles: Mapping[str, Percentile] | None


class OverviewStep(_Interval, _Sums):
    groups: Sequence[OverviewStepGroup]


class Overview(ResponseModel):
    span: str
    first: Annotated[_Date, Field(alias="from")]
    last: Annotated[_Date, Field(alias="to")]
    time_zone: str
    step: Annotated[str, Field(description="hour, day or week.")]
    by: str
    filters: Mapping[str, str | None]
    complete_from: Annotated[
        Instant, Field(description="The figures may lack calls of the period before this time.")
    ]
    totals: OverviewTotals
    before: OverviewBefore | None
    percentiles: Mapping[str, Percentile]
    percentile_resolution: Annotated[float, Field(description="The relative error of percentiles.")]
    headroom: Annotated[
        Mapping[str, float] | None,
        Field(description="The lowest remaining share of each rate limit of upstream."),
    ]
    month: OverviewMonth | None
    products: Annotated[
        Sequence[UsageProduct],
        Field(description="The usage of interfaces other than messages, if no filter is set."),
    ] = ()
    groups: Sequence[OverviewGroup]
    steps: Sequence[OverviewStep]

    @classmethod
    def make(
        cls,
        period: Period,
        filters: Filters,
        by: Name,
        found: Found,
        whole: Found,
        *,
        before: Totals | None = None,
        rejected: int | None = None,
        headroom: Mapping[str, float] | None = None,
        month: forecast.Month | None = None,
        products: Sequence[ProductTotals] = (),
    ) -> Self:
        """Return the document of what was found, by group (``found``) and for all calls (``whole``).

        ``before`` has the totals of the period before. None stands for figures that are unknown under
        these filters."""
        series = make_series(period.steps, whole.cells, found.cells)
        return cls(
            span=period.span,
            first=period.first.isoformat(),
            last=period.last.isoformat(),
            time_zone="UTC",
            step=period.step,
            by=by,
            filters={name: value or None for name, value in filters.values.items()},
            complete_from=format_seconds(found.back_to or period.elapsed.start),
            totals=OverviewTotals.make(series.totals, rejected=rejected),
            before=None
            if before is None
            else OverviewBefore.make(before, **_make_times(period.before)),
            percentiles=_make_percentiles(sum(whole.timings.values(), NOTHING)),
            percentile_resolution=RESOLUTION,
            headroom=headroom,
            month=None if month is None else OverviewMonth.make(month),
            products=[UsageProduct.of(each) for each in products],
            groups=[
                OverviewGroup.make(
                    group.totals,
                    percentiles=_make_percentiles(found.timings[group.name])
                    if group.name is not None and group.name in found.timings
                    else None,
                    **_make_name(by, group.name),
                )
                for group in series.listed
            ],
            steps=[
                OverviewStep.make(
                    step.totals,
                    groups=[
                        OverviewStepGroup.of(totals, **_make_name(by, group.name))
                        for group, totals in zip(series.groups, step.groups, strict=True)
                    ],
                    **_make_times(step.time),
                )
                for step in series.steps
            ],
        )


def _make_times(interval: Interval) -> dict[str, str]:
    return {"start": format_seconds(interval.start), "end": format_seconds(interval.end)}


def _make_name(by: Name, name: str | None) -> dict[str, object]:
    """Return the fields that name a group: ``name`` is null for calls without a value, and for the rest."""
    requested = find_requested(name or "") if by == "model" else None
    return {
        "name": None if requested is not None else name or None,
        "request_model": requested,
        "is_rest": name is None,
    }


def _make_percentiles(timing: Timing) -> dict[str, Percentile]:
    return {name: Percentile.of(each) for name, each in find_percentiles(timing).items()}
