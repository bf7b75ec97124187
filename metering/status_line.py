"""The status line of a client: the cost of a session, its cache, limits and budgets, as plain text.

It contains no text from clients or upstream except the names of windows, which are checked here."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from metering.formats import format_lasted, format_sum_cost
from metering.limit_windows import WindowState

SEPARATOR = " · "
MAX_WINDOWS = 4
MAX_BUDGETS = 2
LEAST_CENTS = 0.5  # less is not worth a place
_WINDOW = re.compile(r"[0-9a-z_]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The present status of a session, including its subagents. Costs are in US cents.

    ``estimated_cents`` is the estimated part of the cost, ``value_cents`` the part that a subscription
    covers. The prompt cache of the main agent lasts until ``cached_until``, None if nothing was cached.
    ``break_cents`` is the cost of the last cache break, None if there was none."""

    cost_cents: float
    estimated_cents: float
    value_cents: float
    slug: str
    cached_until: datetime | None = None
    break_cents: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """The rest of a budget, in US cents. ``slug`` is that of its endpoint, None for all endpoints."""

    slug: str | None
    left_cents: float
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The data for a status line. ``session`` is None if it has no calls yet."""

    session: SessionStatus | None
    windows: Sequence[WindowState] = ()
    budgets: Sequence[BudgetLeft] = ()


def make_line(status: Status, parts: Collection[str], now: datetime) -> str:
    """Return the line with these parts, in the order of ``PARTS``; empty if nothing is known."""
    said = [words for name, say in PARTS.items() if name in parts for words in say(status, now)]
    return SEPARATOR.join(said)


def parse_parts(text: str) -> frozenset[str]:
    """Return the names of parts in a text, separated by commas there. Raises ValueError."""
    parts = frozenset(each.strip() for each in text.split(",") if each.strip())
    if not parts or not parts <= PARTS.keys():
        raise ValueError(f"name some of {', '.join(PARTS)}, separated by commas")
    return parts


def _say_cost(status: Status, _now: datetime) -> Sequence[str]:
    session = status.session
    if session is None:
        return ()
    words = format_sum_cost(session.cost_cents)
    if session.value_cents >= LEAST_CENTS and session.value_cents >= session.cost_cents - 1e-6:
        words += " value"
    if session.estimated_cents >= LEAST_CENTS:
        words += f" ({format_sum_cost(session.estimated_cents)} estimated)"
    return (words,)


def _say_cache(status: Status, now: datetime) -> Sequence[str]:
    session = status.session
    if session is None:
        return ()
    said = []
    if session.cached_until is not None:
        left = session.cached_until - now
        said.append(f"cache {_format_clock(left)}" if left > timedelta() else "cache cold")
    if session.break_cents is not None:
        said.append(f"last break {format_sum_cost(session.break_cents)}")
    return said


def _say_limits(status: Status, now: datetime) -> Sequence[str]:
    known = [each for each in status.windows if _WINDOW.fullmatch(each.window)]
    return [_say_window(each, now) for each in known[:MAX_WINDOWS]]


def _say_window(window: WindowState, now: datetime) -> str:
    if window.left is None:
        return f"{window.window} reset"
    words = f"{window.window} {window.used:.0%}"
    if window.resets_at is not None:
        left_ms = (window.resets_at - now).total_seconds() * 1000
        words += f" (resets in {format_lasted(max(left_ms, 0.0))})"
    return words


def _say_budget(status: Status, _now: datetime) -> Sequence[str]:
    slug = None if status.session is None else status.session.slug
    own = sorted(
        (each for each in status.budgets if each.slug is None or each.slug == slug),
        key=lambda each: each.left_cents,
    )
    return [
        f"budget {format_sum_cost(max(each.left_cents, 0.0))} left {each.when}"
        for each in own[:MAX_BUDGETS]
    ]


def _format_clock(left: timedelta) -> str:
    minutes, seconds = divmod(round(left.total_seconds()), 60)
    return f"{minutes}:{seconds:02d}"


PARTS: Mapping[str, Callable[[Status, datetime], Sequence[str]]] = {
    "cost": _say_cost,
    "cache": _say_cache,
    "limits": _say_limits,
    "budget": _say_budget,
}
