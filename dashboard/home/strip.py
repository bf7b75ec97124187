"""The top row of the home page in words: today, the month, subscription windows, and budgets as
gauges.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

from dashboard.drawing import Gauge, make_gauge
from dashboard.home.reading import Home, Strip
from dashboard.moments import move
from metering.credential_names import name_credential
from metering.formats import (
    format_calls,
    format_change,
    format_count,
    format_lasted,
    format_sum_cost,
)
from metering.limit_windows import WindowState
from runtime.safe_text import reveal
from store.control.budget_management import BudgetStatus
from store.control.budgets import Budget

MAX_BUDGETS = 3  # the others are in the settings
MAX_ACCOUNTS = 3
OLD_READING = timedelta(minutes=5)  # from here on its age is said
_UP, _DOWN, _SAME = "up", "down", "0 %"
_FLYING = "flying"
_MANY_TIMES = 10  # from here on per cent say nothing
_SMALL_CENTS = 100.0  # below which no change is alarming, and nothing is a measure
_DAY, _MILLISECOND = timedelta(days=1), timedelta(milliseconds=1)
_WINDOW_NAMES = {"5h": "5 hours", "7d": "Week", "7d_oi": "7d_oi", "overage": "Extra"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words with the CSS class of their colour, an address, and the punctuation after them."""

    words: str
    kind: str = ""
    href: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell: its label, its value with an address, and lines of phrases below."""

    label: str
    value: str
    href: str
    lines: Sequence[Sequence[Phrase]]


@dataclass(frozen=True, slots=True)
class NamedGauge:
    """A gauge with its name and a description. ``warning`` says that it will be used up, or is."""

    name: str
    gauge: Gauge
    words: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a subscription as gauges, with the title of their cell."""

    title: str
    gauges: Sequence[NamedGauge]


def make_figures(
    strip: Strip, now: datetime, flights: int, calls: str, failed: str, zone: tzinfo = UTC
) -> Sequence[Figure]:
    """Return the cells of today and of the month. Days are UTC, as in all sums.

    ``flights`` is the number of calls in flight; ``calls`` and ``failed`` are addresses of today's
    calls. If ``zone`` is not UTC, times of day are marked as UTC."""
    today = strip.today
    counts = [Phrase(format_calls(today.calls))]
    if today.errors:
        counts.append(Phrase(f"{format_count(today.errors)} failed", href=failed))
    if flights:
        counts.append(Phrase(f"{format_count(flights)} in flight", _FLYING, calls))
    counts = [*(replace(each, end=",") for each in counts[:-1]), counts[-1]]
    month = f"{now:%B}"
    return [
        Figure(
            "Today", format_sum_cost(today.cost_cents), calls, [_compare(strip, now, zone), counts]
        ),
        Figure(
            month,
            format_sum_cost(strip.month.cost.so_far),
            "/?period=month",
            [[Phrase(words)] for words in _describe_month(strip, now)],
        ),
    ]


def _compare(strip: Strip, now: datetime, zone: tzinfo) -> Sequence[Phrase]:
    """Return phrases that compare today's cost with the same day of the last week until this time."""
    day, before = f"last {now:%A}", strip.week_before_cents
    if before is None:
        return [Phrase("the first week of calls")]
    by = f"{now:%H:%M}" if str(zone) == "UTC" else f"{now:%H:%M} UTC"
    change = format_change(strip.today.cost_cents, before)
    if not change:
        return [Phrase(f"nothing {day} by {by}")]
    is_small = max(strip.today.cost_cents, before) < _SMALL_CENTS
    kind = "" if is_small else _UP if strip.today.cost_cents > before else _DOWN
    times = strip.today.cost_cents / before
    if times >= _MANY_TIMES and before < _SMALL_CENTS:
        return [Phrase(f"{format_sum_cost(before)} {day} by {by}")]
    if times >= _MANY_TIMES:
        return [Phrase(f"{times:,.0f} times", kind), Phrase(f"as much as {day} by {by}")]
    return [Phrase(change, "" if change == _SAME else kind), Phrase(f"on {day} by {by}")]


def _describe_month(strip: Strip, now: datetime) -> Sequence[str]:
    words = []
    expected, last = strip.month.cost.expected, strip.last_month_cents
    if expected is not None:
        words.append(f"{format_sum_cost(expected)} expected at its end")
    spend = strip.month.spend.so_far
    if strip.month.cost.so_far - spend > 1e-6:
        words.append(f"{format_sum_cost(spend)} of it billed to you")
    elif last is not None:
        words.append(f"{now.replace(day=1) - _DAY:%B} was {format_sum_cost(last)}")
    return words


def make_windows(home: Home, names: Mapping[str, str], now: datetime) -> Sequence[Windows]:
    """Return the gauges of the subscriptions that were used last and whose windows are known.

    Times are in the zone of ``now``. ``names`` maps fingerprints of credentials and subscriptions to
    names."""
    accounts: dict[str, list[NamedGauge]] = {}
    for state in home.windows:
        if state.left is not None:
            accounts.setdefault(state.account, []).append(_make_window(state, now))
    shown = list(accounts.items())[:MAX_ACCOUNTS]
    titles = [_name_account(account, names, len(accounts)) for account, _ in shown]
    if titles and home.week.value_cents:
        worth = format_sum_cost(home.week.value_cents)
        titles[0] += f", {worth} in 7 days at list prices"
        titles[0] += " with the others" if len(accounts) > 1 else ""
    if len(accounts) > len(shown):
        titles[-1] += f"; {len(accounts) - len(shown)} more in /limits.json"
    return [Windows(title, gauges) for title, (_, gauges) in zip(titles, shown, strict=True)]


def _name_account(account: str, names: Mapping[str, str], accounts: int) -> str:
    """Return the title of a subscription, with its name if it has one or there are several."""
    if accounts == 1 and account not in names:
        return "Subscription"
    return f"Subscription {reveal(name_credential(account, names))}"


def _make_window(state: WindowState, now: datetime) -> NamedGauge:
    warning = _warn(state, now)
    parts = [] if warning else [f"at most {_left(state)} left"]
    if state.resets_at is not None:
        until = state.resets_at - now
        lasts = f", in {format_lasted(until / _MILLISECOND)}" if until < _DAY else ""
        parts.append(f"resets {_when(state.resets_at, now)}{lasts}")
    if now - state.read_at >= OLD_READING:
        parts.append(f"read {format_lasted((now - state.read_at) / _MILLISECOND)} ago")
    return NamedGauge(
        _WINDOW_NAMES.get(state.window, state.window),
        make_gauge(state.used, state.elapsed),
        "; ".join(parts),
        warning,
    )


def _left(state: WindowState) -> str:
    return f"{100 - math.floor(100 * min(state.used, 1.0) + 1e-9)} %"


def _warn(state: WindowState, now: datetime) -> str:
    if state.used_up_at is None:
        return ""
    if state.used >= 1:
        return "used up"
    if state.used_up_at <= now:  # the reading is old: whether calls went on is not known
        return "used up by now, if it went on like this"
    return f"used up {_when(state.used_up_at, now)} at this pace"


def _when(instant: datetime, now: datetime) -> str:
    """Return a future time in words: ``16:40`` today, ``Thu 16:00`` within a week, otherwise its date."""
    there = move(instant, now.tzinfo)
    if there.date() == now.date():
        return f"{there:%H:%M}"
    if instant - now < 7 * _DAY:
        return f"{there:%a %H:%M}"
    return f"{there:%Y-%m-%d}"


def make_budgets(statuses: Sequence[BudgetStatus], now: datetime) -> Sequence[NamedGauge]:
    """Return the gauges of the budgets with the largest used shares."""
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
