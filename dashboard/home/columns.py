"""The chart of the home page: a column for each step of time, with its value and the address of its
calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.drawing import Chart, make_chart
from dashboard.home.choice import MEASURES, Measure
from dashboard.home.names import label_step, name_group, name_rest, name_step
from dashboard.home.reading import Costs
from dashboard.overview.filters import step_address
from dashboard.overview.series import Step
from metering.formats import (
    UNKNOWN,
    format_count,
    format_duration,
    format_short_tokens,
    format_sum_cost,
)
from metering.token_counts import CHART_CLASSES
from store.traces.sessions.session_means import SessionDay
from store.traces.sums.histograms import find_percentile
from store.traces.sums.timings import NOTHING
from store.traces.sums.usage_report import Totals

REST = "rest"
_CENT = 1.0
type Number = float | None


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend: the CSS class of a series' colour, and its name."""

    style: str
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    """The texts of a column: the address of its calls, its name, its value, and its parts for the tooltip."""

    address: str
    name: str
    value: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Columns:
    """The chart with its legend (``keys``) and the texts of each column. ``unit`` says what is counted;
    ``is_empty``: there is nothing to draw."""

    chart: Chart
    keys: Sequence[Key]
    words: Sequence[Column]
    unit: str
    has_expected: bool
    is_empty: bool

    @property
    def styles(self) -> Sequence[str]:
        """Return the CSS class of each series."""
        return [key.style for key in self.keys]

    @property
    def valued_keys(self) -> Sequence[Key]:
        """Return the series that have a value in some column, for the table of figures."""
        names = {name for column in self.words for name, _ in column.rows}
        return [key for key in self.keys if key.name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """The values of each step by series (None: unknown), and how values and ticks are formatted. ``unit``
    is the smallest step of ticks; ``sums`` are the formatted totals of steps, if they are not sums of
    the values."""

    keys: Sequence[Key]
    steps: Sequence[Sequence[Number]]
    write: Callable[[Number], str]
    tick: Callable[[float], str]
    unit: float = 0.0
    sums: Sequence[str] | None = None


def make_columns(costs: Costs) -> Columns:
    """Return the columns of the chosen measure."""
    values = _find_values(costs)
    choice, steps = costs.choice, costs.series.steps
    stacks = [[value or 0.0 for value in step] for step in values.steps]
    words = []
    for place, step in enumerate(steps):
        written = [
            [key.name, values.write(value)]
            for key, value in zip(values.keys, values.steps[place], strict=True)
            if value
        ]
        if place == len(steps) - 1 and costs.expected_cents is not None:
            written.append(["expected by midnight", format_sum_cost(costs.expected_cents)])
        total = values.sums[place] if values.sums else values.write(sum(stacks[place]))
        words.append(
            Column(
                step_address(choice.filters, step.time) or choice.address(),
                name_step(choice.period, step.time),
                total,
                written,
            )
        )
    chart = make_chart(
        stacks,
        [label_step(choice.period, step.time) for step in steps],
        values.tick,
        unit=values.unit,
        expected=costs.expected_cents,
    )
    return Columns(
        chart=chart,
        keys=values.keys,
        words=words,
        unit=f"{MEASURES[choice.measure].unit} per {choice.period.step}, UTC.",
        has_expected=chart.columns[-1].expected is not None,
        is_empty=not any(map(any, stacks)),
    )


def _find_values(costs: Costs) -> _Values:
    choice = costs.choice
    if choice.measure == "time":
        return _find_times(costs)
    if choice.measure in ("session", "prompt"):
        return _find_means(costs)
    if choice.is_of_kinds:
        return _find_kinds(costs.series.steps)
    return _find_groups(costs)


def make_keys(costs: Costs) -> Sequence[Key]:
    """Return the legend for the groups that the columns are stacked by, in the order of the groups."""
    by = costs.choice.group
    return [
        Key(REST, name_rest(by))
        if group.name is None
        else Key(f"s{place + 1}", name_group(by, group.name, costs.titles.get(group.name)))
        for place, group in enumerate(costs.series.groups)
    ]


def _find_groups(costs: Costs) -> _Values:
    read, write, tick, unit = _FORMS[costs.choice.measure]
    return _Values(
        keys=make_keys(costs),
        steps=[[read(totals) for totals in step.groups] for step in costs.series.steps],
        write=write,
        tick=tick,
        unit=unit,
    )


def _find_kinds(steps: Sequence[Step]) -> _Values:
    return _Values(
        # What was paid for has colours of its own, the same on all pages.
        keys=[Key(each.color, each.title) for each in CHART_CLASSES],
        steps=[
            [float(getattr(step.totals.tokens, each.name) or 0) for each in CHART_CLASSES]
            for step in steps
        ],
        write=_write_tokens,
        tick=_write_tokens,
        unit=1,
    )


def _find_times(costs: Costs) -> _Values:
    """Return the median times of each step: until the first byte, and from the first byte to the end."""
    steps: list[tuple[Number, Number]] = []
    sums = []
    for step in costs.series.steps:
        first, last = step.time.start.date().isoformat(), step.time.end.date().isoformat()
        of_step = [
            each for day, each in costs.timings.items() if first <= day < max(last, first + "~")
        ]
        times = sum(of_step, NOTHING)
        first_byte = find_percentile(times.ttfb_ms, 0.5)
        whole = find_percentile(times.duration_ms, 0.5)
        rest = None if whole is None else max(0.0, whole - (first_byte or 0.0))
        steps.append((first_byte, rest))
        sums.append(format_duration(whole))
    return _Values(
        keys=[Key("s1", "First byte"), Key("s2", "From there to the end")],
        steps=steps,
        write=format_duration,
        tick=format_duration,
        sums=sums,
    )


def _find_means(costs: Costs) -> _Values:
    days = {day.day: day for day in costs.days}
    means: list[Sequence[Number]] = []
    sums = []
    for step in costs.series.steps:
        first, last = step.time.start.date().isoformat(), step.time.end.date().isoformat()
        of_step = [each for day, each in days.items() if first <= day < last]
        mean = find_mean(of_step, costs.choice.measure)
        means.append([mean])
        sums.append(format_sum_cost(mean))
    return _Values(
        keys=[Key("s1", "Mean")],
        steps=means,
        write=format_sum_cost,
        tick=format_dollars,
        unit=_CENT,
        sums=sums,
    )


def find_mean(days: Sequence[SessionDay], measure: Measure) -> float | None:
    """Return the mean cost of a session or a prompt in cents, None if there were none."""
    if measure == "session":
        count = sum(day.sessions for day in days)
    else:
        count = sum(day.prompts or 0 for day in days)
    return sum(day.cents for day in days) / count if count else None


# -- values ---------------------------------------------------------------------------------------------


def count_tokens(totals: Totals) -> float:
    """Return the number of all tokens: prompt and output."""
    return (totals.tokens.prompt or 0) + (totals.tokens.output_tokens or 0)


def _read_cost(totals: Totals) -> float:
    return totals.cost_cents


def _read_calls(totals: Totals) -> float:
    return totals.calls


def format_dollars(cents: float) -> str:
    """Return the label of a tick at ``cents``, with few digits, since ticks are round."""
    dollars = cents / 100
    if dollars >= 10 or dollars == int(dollars):
        return f"${dollars:,.0f}"
    return f"${dollars:.2f}"


def _write_tokens(count: Number) -> str:
    return format_short_tokens(None if count is None else round(count))


def _write_count(count: Number) -> str:
    return UNKNOWN if count is None else format_count(round(count))


# What a measure reads of totals, how a value and a tick are written, and the least step of ticks.
type Form = tuple[Callable[[Totals], float], Callable[[Number], str], Callable[[float], str], float]
_FORMS: dict[Measure, Form] = {
    "cost": (_read_cost, format_sum_cost, format_dollars, _CENT),
    "tokens": (count_tokens, _write_tokens, _write_tokens, 1),
    "calls": (_read_calls, _write_count, _write_count, 1),
}


def read_measure(measure: Measure) -> Callable[[Totals], float]:
    """Return the function that reads a measure from totals. If totals lack the measure, it reads the
    number of calls."""
    return _FORMS[measure][0] if measure in _FORMS else _read_calls
