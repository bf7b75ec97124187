"""The charts of an overview with their keys and tables, as the template writes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboard.overview.chart import Chart, make_chart
from dashboard.overview.filters import NONE, Filters, Name, calls_address
from dashboard.overview.periods import Period
from dashboard.overview.reading import Overview
from dashboard.overview.series import MAX_SHOWN, Group, Step
from metering.formats import format_cents, format_count, format_tokens
from metering.token_counts import CHART_CLASSES
from runtime.intervals import Interval
from store.traces.sums.rollup import OTHER, UNKNOWN

PATH = "/overview"
REST = "rest"
_LEAST_CENTS = 0.01  # a smaller amount is "<$0.0001" on all pages
_UNKNOWN_NAMES: dict[Name, str] = {
    "model": "No model named",
    "client": "No client named",
    "credential": "No credential",
    "billing": "Billing not known",
    "session": "No session",
    "agent": "Main agent",
    "user": "No user named",
    "project": "No project named",
}
_MANY: dict[Name, str] = {
    "endpoint": "endpoints",
    "model": "models",
    "client": "clients",
    "credential": "credentials",
    "billing": "kinds of billing",
    "session": "sessions",
    "agent": "agents",
    "user": "users",
    "project": "projects",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A series of a chart: the class of its colour, its name, and the overview of it alone."""

    style: str
    name: str
    href: str | None
    calls: str | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of the table, with the calls behind it."""

    text: str
    href: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A step: its name, the calls of all of it, its values by series, and their sum."""

    name: str
    href: str | None
    cells: Sequence[Cell]
    total: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart, with the same numbers as a table. There is a row and a bar for each step."""

    id: str
    title: str
    summary: str
    chart: Chart
    keys: Sequence[Key]
    rows: Sequence[Row]


def draw(overview: Overview) -> Sequence[Drawing]:
    """Return the charts of an overview."""
    keys = make_keys(overview, overview.series.groups)
    by = f" by {overview.by}"
    groups = overview.series.groups
    return [
        _draw(
            overview,
            "cost",
            f"Cost{by}",
            keys,
            [[totals.cost_cents for totals in step.groups] for step in overview.series.steps],
            format_cents,
            _format_dollars,
            groups=groups,
            unit=_LEAST_CENTS,
        ),
        _draw(
            overview,
            "calls",
            f"Calls{by}",
            keys,
            [[float(totals.calls) for totals in step.groups] for step in overview.series.steps],
            _format_whole,
            _format_tokens,
            groups=groups,
            unit=1,
        ),
        _draw(
            overview,
            "tokens",
            "Tokens by kind",
            [Key(each.color, each.title, None, None) for each in CHART_CLASSES],
            [
                [float(getattr(step.totals.tokens, each.name) or 0) for each in CHART_CLASSES]
                for step in overview.series.steps
            ],
            _format_tokens,
            _format_tokens,
            unit=1,
        ),
    ]


def make_keys(overview: Overview, groups: Sequence[Group]) -> Sequence[Key]:
    """Return the keys of groups. Those beyond the groups of the charts have the colour of the rest."""
    return [_make_key(overview, place, group, len(groups)) for place, group in enumerate(groups)]


def _make_key(overview: Overview, place: int, group: Group, count: int) -> Key:
    series = overview.series
    if group.name is None:
        hidden = series.hidden + MAX_SHOWN - (count - 1) if series.hidden else 0
        name = f"{hidden} other {_MANY[overview.by]}" if hidden > 0 else "Others"
        return Key(REST, name, None, None)
    filters = overview.filters.only(overview.by, group.name)
    elapsed = overview.period.elapsed
    return Key(
        f"s{place}" if place < MAX_SHOWN else REST,
        name_group(overview, group.name),
        overview_address(overview.period.span, filters, overview.by),
        calls_address(filters, elapsed.start, elapsed.end),
    )


def name_group(overview: Overview, name: str) -> str:
    """Return the name of a group as pages show it."""
    if name == UNKNOWN:
        return _UNKNOWN_NAMES.get(overview.by, NONE)
    if name == OTHER:
        return f"Other {_MANY[overview.by]}"
    return overview.titles.get(name) or name


def overview_address(span: str, filters: Filters, by: Name) -> str:
    """Return the address of an overview."""
    arguments = [("span", span), ("by", by), *filters.as_arguments()]
    return f"{PATH}?{urlencode(arguments, errors='replace')}"


def name_step(period: Period, step: Interval, *, short: bool = False) -> str:
    """Return the name of a step: its hour, its day, or the first day of its week."""
    if period.step == "hour":
        return f"{step.start:%H:%M}" if short and period.days == 1 else f"{step.start:%m-%d %H:%M}"
    return f"{step.start:%m-%d}" if short else f"{step.start:%Y-%m-%d}"


def _draw(
    overview: Overview,
    chart_id: str,
    title: str,
    keys: Sequence[Key],
    values: Sequence[Sequence[float]],
    format_value: Callable[[float], str],
    format_tick: Callable[[float], str],
    *,
    groups: Sequence[Group] = (),
    unit: float = 0.0,
) -> Drawing:
    period, steps = overview.period, overview.series.steps
    names = [name_step(period, step.time, short=True) for step in steps]
    rows = [
        _make_row(overview, step, numbers, format_value, groups)
        for step, numbers in zip(steps, values, strict=True)
    ]
    return Drawing(
        id=chart_id,
        title=title,
        summary=f"{title} per {period.step}, in all {format_value(sum(map(sum, values)))}",
        chart=make_chart(values, names, format_tick, unit=unit),
        keys=keys,
        rows=rows,
    )


def _make_row(
    overview: Overview,
    step: Step,
    values: Sequence[float],
    format_value: Callable[[float], str],
    groups: Sequence[Group],
) -> Row:
    def address(filters: Filters) -> str | None:
        return calls_address(filters, step.time.start, step.time.end)

    links: list[str | None] = [None] * len(values)
    for place, group in enumerate(groups):
        if group.name is not None and values[place]:
            links[place] = address(overview.filters.only(overview.by, group.name))
    return Row(
        name=name_step(overview.period, step.time),
        href=address(overview.filters),
        cells=[Cell(format_value(value), link) for value, link in zip(values, links, strict=True)],
        total=format_value(sum(values)),
    )


def _format_dollars(cents: float) -> str:
    """Return the value of a tick: few digits, since ticks are round."""
    return f"${cents / 100:,.0f}" if cents >= 1_000 else f"${cents / 100:g}"


def _format_whole(value: float) -> str:
    return format_count(round(value))


def _format_tokens(value: float) -> str:
    return format_tokens(round(value))
