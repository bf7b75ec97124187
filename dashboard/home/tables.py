"""The table beside the chart of the home page: a period compared with the one before, or times by
group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dashboard.addresses import session_address
from dashboard.home.choice import Measure
from dashboard.home.columns import REST, find_mean, make_keys, read_measure
from dashboard.home.comparison import Line, compare
from dashboard.home.names import GROUP_TITLES, name_group, name_rest
from dashboard.home.reading import SHOWN_GROUPS, Costs
from dashboard.overview.filters import calls_address
from dashboard.overview.periods import Period
from metering.attribution import PROJECT, USER
from metering.formats import (
    UNKNOWN,
    format_change,
    format_count,
    format_count_change,
    format_duration,
    format_per_cent,
    format_short_tokens,
    format_sum_change,
    format_sum_cost,
    format_tokens_change,
)
from metering.token_counts import CHART_CLASSES
from store.traces.sums.timings import NOTHING, Percentiles, find_percentiles
from store.traces.sums.usage_report import Totals

NAMED_BY_CLIENTS = "Clients name them, and nothing checks it."
_SLOWEST_FAST = 9.95  # tokens a second from which on decimals say nothing


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column: its text, CSS classes, the number of columns that it spans, and whether rows
    are sorted by it."""

    words: str
    kind: str = "num"
    span: int = 1
    is_sorted: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A value with the CSS classes of its cell, and a text for its tooltip."""

    text: str
    kind: str = "num"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the CSS class of its colour, its name, the address that the name links to, and its cells."""

    style: str
    name: str
    href: str | None
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """The table beside the chart. The first of ``heads`` is for the names; ``foot`` is the row of sums."""

    title: str
    heads: Sequence[Head]
    rows: Sequence[Row]
    foot: Row | None = None
    notes: Sequence[str] = field(default_factory=tuple)


def make_table(costs: Costs) -> Table:
    """Return the table of the chosen measure."""
    choice = costs.choice
    if choice.measure == "time":
        return _make_times(costs)
    if not choice.is_grouped:
        return _make_means(costs)
    if choice.is_of_kinds:
        return _make_kinds(costs)
    return _make_groups(costs)


# -- groups ---------------------------------------------------------------------------------------------


def _make_groups(costs: Costs) -> Table:
    choice, by = costs.choice, costs.choice.group
    measure = read_measure(choice.measure)
    compared = compare(costs.now, costs.before or {}, measure, SHOWN_GROUPS, costs.smaller)
    rows = [
        Row(*_name_line(costs, line, costs.compared), _make_cells(costs, line))
        for line in compared.lines
        if line.name is not None
    ]
    if compared.rest is not None:
        rows.append(Row(REST, name_rest(by), None, _make_cells(costs, compared.rest)))
    period = costs.compared.title
    return Table(
        f"{period} against the time before, by {GROUP_TITLES[by].lower()}",
        [Head(GROUP_TITLES[by], ""), *_make_heads(costs, period)],
        rows,
        Row("", "All", None, _make_cells(costs, compared.total)) if len(rows) > 1 else None,
        (NAMED_BY_CLIENTS,) if by in (USER, PROJECT) else (),
    )


def _make_heads(costs: Costs, period: str) -> Sequence[Head]:
    last = {"cost": "Calls", "tokens": "Cost", "calls": "Failed"}[costs.choice.measure]
    return [
        Head(period, is_sorted=True),
        *([Head("Before"), Head("Change", span=2)] if costs.before is not None else []),
        Head(last, "num hide-s"),
        Head("Cached", "num hide-s"),
    ]


def _name_line(costs: Costs, line: Line, period: Period) -> tuple[str, str, str | None]:
    """Return the CSS class of a group's colour, its name, and the address of its page or calls."""
    by, name = costs.choice.group, line.name or ""
    styles = {
        group.name: key.style
        for group, key in zip(costs.series.groups, make_keys(costs), strict=True)
    }
    title = costs.titles.get(name)
    href = calls_address(costs.choice.filters.only(by, name), period)
    if by == "session" and name in costs.titles:
        href = session_address(name)
    return styles.get(name, REST), name_group(by, name, title), href


def _make_cells(costs: Costs, line: Line) -> Sequence[Cell]:
    measure = costs.choice.measure
    cells = [Cell(_write(measure, line.now), "num strong", _explain(measure, line.now))]
    if costs.before is not None:
        cells.append(Cell(_write(measure, line.before), "num soft"))
        cells += _write_change(measure, line)
    last = {
        "cost": format_count(line.now.calls),
        "tokens": format_sum_cost(line.now.cost_cents),
        "calls": format_count(line.now.errors),
    }[measure]
    tokens = line.now.tokens
    cached = format_per_cent(tokens.cache_read_input_tokens or 0, tokens.prompt or 0)
    return [*cells, Cell(last, "num hide-s"), Cell(cached, "num hide-s")]


def _is_unpriced(totals: Totals) -> bool:
    return bool(totals.unpriced or totals.unpriced_tokens) and not totals.cost_cents


def _explain(measure: Measure, totals: Totals) -> str:
    return "The price is not known yet." if measure == "cost" and _is_unpriced(totals) else ""


def _write(measure: Measure, totals: Totals) -> str:
    if measure == "cost":
        return UNKNOWN if _is_unpriced(totals) else format_sum_cost(totals.cost_cents)
    value = round(read_measure(measure)(totals))
    return format_short_tokens(value) if measure == "tokens" else format_count(value)


def _round_shown(cents: float) -> float:
    """Return cents rounded as they are displayed, so that differences match the displayed values."""
    return round(cents / 100, 2) * 100


def _write_change(measure: Measure, line: Line) -> Sequence[Cell]:
    """Return the cells of the absolute change and the change in per cent. Only changes of cost are
    coloured."""
    read = read_measure(measure)
    now, before = read(line.now), read(line.before)
    if measure == "cost":
        text = format_sum_change(_round_shown(now) - _round_shown(before))
        kind = "" if text.startswith("$") else "up" if now > before else "down"
    else:
        change = round(now - before)
        text, kind = format_count_change(change), ""
        if measure == "tokens":
            text = format_tokens_change(change)
    percent = format_change(now, before)
    return [
        Cell(text, f"num {kind}".strip()),
        Cell(percent or ("new" if now > before else ""), f"num {kind}".strip()),
    ]


# -- kinds of tokens ------------------------------------------------------------------------------------


def _make_kinds(costs: Costs) -> Table:
    """Return the table of tokens by kind in both periods, in the order of the stacked columns."""
    totals = compare(costs.now, costs.before or {}, read_measure("tokens"), 0).total
    rows = []
    for each in reversed(CHART_CLASSES):
        now, before = (getattr(part.tokens, each.name) or 0 for part in (totals.now, totals.before))
        cells = [Cell(format_short_tokens(now), "num strong", format_count(now))]
        if costs.before is not None:
            cells += [
                Cell(format_short_tokens(before), "num soft", format_count(before)),
                Cell(format_change(now, before) or "new"),
            ]
        rows.append(Row(each.color, each.title, None, cells))
    heads = [Head("Kind of token", ""), Head(costs.compared.title)]
    if costs.before is not None:
        heads += [Head("Before"), Head("Change")]
    return Table(f"Tokens by kind, {costs.compared.title}", heads, rows)


# -- times ----------------------------------------------------------------------------------------------


def _make_times(costs: Costs) -> Table:
    """Return the table of times by group over the whole period, the groups with most calls first."""
    choice, by = costs.choice, costs.choice.group
    timed = {name: find_percentiles(each) for name, each in costs.group_timings.items()}
    names = sorted(timed, key=lambda name: (-timed[name]["duration_ms"].calls, name))
    rows = [
        Row(
            "",
            *_name_line(costs, Line(name, Totals(), Totals()), choice.period)[1:],
            _write_times(timed[name]),
        )
        for name in names[:SHOWN_GROUPS]
    ]
    whole = find_percentiles(sum(costs.group_timings.values(), NOTHING))
    return Table(
        f"Times by {GROUP_TITLES[by].lower()}, {choice.period.title}",
        [
            Head(GROUP_TITLES[by], ""),
            Head("First byte"),
            Head("Duration"),
            Head("95 %", "num hide-s"),
            Head("Proxy", "num hide-s"),
            Head("Tokens/s", "num hide-s"),
            Head("Calls", is_sorted=True),
        ],
        rows,
        Row("", "All", None, _write_times(whole)),
        ("Medians; 95 % of the calls took no longer than the time in that column.",),
    )


def _write_times(found: Mapping[str, Percentiles]) -> Sequence[Cell]:
    speed = found["output_tokens_per_s"].p50
    return [
        Cell(format_duration(found["ttfb_ms"].p50)),
        Cell(format_duration(found["duration_ms"].p50), "num strong"),
        Cell(format_duration(found["duration_ms"].p95), "num hide-s"),
        Cell(_write_overhead(found["proxy_overhead_ms"].p50), "num hide-s"),
        Cell(_write_speed(speed), "num hide-s"),
        Cell(format_count(found["duration_ms"].calls)),
    ]


def _write_overhead(milliseconds: float | None) -> str:
    return UNKNOWN if milliseconds is None else f"{milliseconds:.1f} ms"


def _write_speed(speed: float | None) -> str:
    if speed is None:
        return UNKNOWN
    return f"{speed:,.0f}" if speed >= _SLOWEST_FAST else f"{speed:.1f}"


# -- means of sessions and prompts ----------------------------------------------------------------------


def _make_means(costs: Costs) -> Table:
    now, before = costs.days_compared, costs.days_before
    rows = [
        _write_mean("A session", find_mean(now, "session"), find_mean(before, "session")),
        _write_mean("A prompt", find_mean(now, "prompt"), find_mean(before, "prompt")),
        _write_count("Sessions", *(sum(day.sessions for day in days) for days in (now, before))),
        _write_count("Prompts", *(sum(day.prompts or 0 for day in days) for days in (now, before))),
    ]
    period = costs.compared.title
    heads = [Head("Mean cost of", ""), Head(period), Head("Before"), Head("Change", span=2)]
    return Table(f"Means, {period} against the time before", heads, rows)


def _write_count(words: str, now: int, before: int) -> Row:
    change = [Cell(format_count_change(now - before)), Cell(format_change(now, before))]
    return _write_against(words, format_count(now), format_count(before), change)


def _write_mean(words: str, now: float | None, before: float | None) -> Row:
    change = None if now is None or before is None else now - before
    kind = "num" if not change else "num up" if change > 0 else "num down"
    changed = [
        Cell(UNKNOWN if change is None else format_sum_change(change), kind),
        Cell(format_change(now or 0, before or 0), kind),
    ]
    return _write_against(words, format_sum_cost(now), format_sum_cost(before), changed)


def _write_against(words: str, now: str, before: str, change: list[Cell]) -> Row:
    return Row("", words, None, [Cell(now, "num strong"), Cell(before, "num soft"), *change])
