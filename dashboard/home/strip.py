"""The strip of the home page in words: today, the month, and budgets as gauges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboard.drawing import Gauge, make_gauge
from dashboard.home.names import MONTHS, WEEKDAYS
from dashboard.home.reading import Home, Strip
from metering.formats import (
    format_calls,
    format_change,
    format_count,
    format_lasted,
    format_sum_cost,
)
from metering.limit_windows import WindowState
from store.control.budget_management import BudgetStatus
from store.control.budgets import Budget

MAX_BUDGETS = 3  # the others are in the settings
_UP, _DOWN, _SAME = "up", "down", "0 %"
_FLYING = "flying"
_MANY_TIMES = 10  # from here on per cent say nothing
_DAY = timedelta(days=1)
_WINDOW_NAMES = {"5h": "5 hours", "7d": "Week", "overage": "Extra"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words, with the class of their colour, an address, and what separates them from the next ones."""

    words: str
    kind: str = ""
    href: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell: its label, its figure with an address, and lines of phrases."""

    label: str
    value: str
    href: str
    lines: Sequence[Sequence[Phrase]]


@dataclass(frozen=True, slots=True)
class NamedGauge:
    """A gauge with its name, what it says in words, and what is going to be too little."""

    name: str
    gauge: Gauge
    words: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a subscription, with the title of their cell."""

    title: str
    gauges: Sequence[NamedGauge]


def make_figures(
    strip: Strip, now: datetime, flights: int, calls: str, failed: str
) -> Sequence[Figure]:
    """Return the cells of today and of the month. ``flights`` calls are in flight; ``calls`` and
    ``failed`` are addresses of today's."""
    today = strip.today
    counts = [Phrase(format_calls(today.calls))]
    if today.errors:
        counts.append(Phrase(f"{format_count(today.errors)} failed", href=failed))
    if flights:
        counts.append(Phrase(f"{format_count(flights)} in flight", _FLYING, calls))
    counts = [*(replace(each, end=",") for each in counts[:-1]), counts[-1]]
    month = MONTHS[now.month - 1]
    return [
        Figure("Today", format_sum_cost(today.cost_cents), calls, [_compare(strip, now), counts]),
        Figure(
            month,
            format_sum_cost(strip.month.cost.so_far),
            "/?period=month",
            [[Phrase(words)] for words in _describe_month(strip, now)],
        ),
    ]


def _compare(strip: Strip, now: datetime) -> Sequence[Phrase]:
    """Return how today compares with the same day of the last week, up to this minute."""
    day, before = f"last {WEEKDAYS[now.weekday()]}", strip.week_before_cents
    if before is None:
        return [Phrase("the first week of calls")]
    change = format_change(strip.today.cost_cents, before)
    if not change:
        return [Phrase(f"nothing {day} by {now:%H:%M}")]
    kind = _UP if strip.today.cost_cents > before else _DOWN
    times = strip.today.cost_cents / before
    if times >= _MANY_TIMES:
        return [Phrase(f"{times:,.0f} times", kind), Phrase(f"as much as {day} by {now:%H:%M}")]
    return [Phrase(change, "" if change == _SAME else kind), Phrase(f"on {day} by {now:%H:%M}")]


def _describe_month(strip: Strip, now: datetime) -> Sequence[str]:
    words = []
    expected, last = strip.month.cost.expected, strip.last_month_cents
    if expected is not None:
        words.append(f"{format_sum_cost(expected)} expected at its end")
    spend = strip.month.spend.so_far
    if strip.month.cost.so_far - spend > 1e-6:
        words.append(f"{format_sum_cost(spend)} of it spend")
    elif last is not None:
        words.append(f"{MONTHS[now.month - 2]} was {format_sum_cost(last)}")
    return words


def make_windows(home: Home, now: datetime) -> Windows | None:
    """Return the windows of the subscription that was used last, None where nothing is known of any."""
    gauges = [_make_window(state, now) for state in home.windows if state.left is not None]
    if not gauges:
        return None
    title = "Subscription"
    if home.week.value_cents:
        title += f", worth {format_sum_cost(home.week.value_cents)} in 7 days"
    if home.accounts > 1:
        title += f"; used last of {home.accounts}"
    return Windows(title, gauges)


def _make_window(state: WindowState, now: datetime) -> NamedGauge:
    warning, words = _warn(state, now), "used"
    if state.resets_at is not None:
        words = f"{'' if warning else 'used; '}resets {_when(state.resets_at, now)}"
        left = state.resets_at - now
        if left < _DAY:
            words += f", in {format_lasted(left.total_seconds() * 1000)}"
    return NamedGauge(
        _WINDOW_NAMES.get(state.window, state.window),
        make_gauge(state.used, state.elapsed),
        words,
        warning,
    )


def _warn(state: WindowState, now: datetime) -> str:
    if state.used_up_at is None:
        return ""
    if state.used >= 1:
        return "used up"
    if state.used_up_at <= now:  # the reading is old: whether calls went on is not known
        return "used up by now, if it went on like this"
    return f"used up {_when(state.used_up_at, now)} at this pace"


def _when(instant: datetime, now: datetime) -> str:
    """Return an instant to come: ``16:40`` today, ``Thu 16:00`` within a week, else with its date."""
    if instant.date() == now.date():
        return f"{instant:%H:%M}"
    if instant - now < 7 * _DAY:
        return f"{WEEKDAYS[instant.weekday()][:3]} {instant:%H:%M}"
    return f"{instant:%Y-%m-%d}"


def make_budgets(statuses: Sequence[BudgetStatus], now: datetime) -> Sequence[NamedGauge]:
    """Return the gauges of the budgets that are used most."""
    known = [each for each in statuses if each.spend is not None]
    known.sort(key=lambda status: -status.percent)
    return [_make_gauge(status, now) for status in known[:MAX_BUDGETS]]


def _name_budget(budget: Budget) -> str:
    if budget.of is None:
        return budget.name or "All"
    return f"{budget.name}, {budget.of.value}" if budget.name else budget.of.value


def _make_gauge(status: BudgetStatus, now: datetime) -> NamedGauge:
    budget, span = status.budget, status.span
    pace = (now - span.start) / (span.end - span.start)
    so_far = (
        f"{format_sum_cost(100 * status.spent_usd)} of {format_sum_cost(100 * budget.limit_usd)}"
    )
    when = "today" if budget.period == "day" else f"this {budget.period}"
    words = f"{so_far} {when}"
    if status.refuses:
        words += ": calls are refused"
    elif status.is_reached:
        words += ": used up"
    elif budget.action == "refuse":
        words += ", then refused"
    return NamedGauge(
        _name_budget(budget),
        make_gauge(status.percent / 100, min(max(pace, 0.0), 1.0)),
        words,
    )
