"""Sums by step and group as series for charts: the largest groups, and the rest of each step."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metering.token_counts import NAMES, ZERO, TokenCounts
from runtime.intervals import HOUR, Interval
from store.traces.sums.overview_query import Cell, format_hour
from store.traces.sums.sum_columns import Sums
from store.traces.sums.usage_report import Totals, add_up

MAX_SHOWN, MAX_LISTED = 7, 50
_SUMMED = (
    "calls", "errors", "unpriced", "unpriced_tokens", "cost_cents", "estimated_cents", "value_cents",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its totals over the period. ``name`` is None for the rest of the groups."""

    name: str | None
    totals: Totals


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the charts: the totals of all calls, and those of each group in the order of the groups."""

    time: Interval
    totals: Totals
    groups: Sequence[Totals]


@dataclass(frozen=True, slots=True)
class Series:
    """The largest groups of a period, the most expensive first and the rest last; and its steps.
    ``listed`` has more groups, and so a smaller rest."""

    totals: Totals
    groups: Sequence[Group]
    listed: Sequence[Group]
    steps: Sequence[Step]


def make_series(
    steps: Sequence[Interval],
    all_cells: Mapping[Cell, Sums],
    cells: Mapping[Cell, Sums],
    most: int = MAX_SHOWN,
) -> Series:
    """Return the series of the ``most`` largest groups. ``cells`` has sums by step and group.

    ``all_cells`` has the sums of all calls; what the groups lack of these is in the rest."""
    places = _find_places(steps)
    by_group, by_place = (
        defaultdict[str, list[Sums]](list),
        defaultdict[tuple[int, str], list[Sums]](list),
    )
    for (label, name), sums in cells.items():
        place = places.get(label)
        if place is not None:
            by_group[name].append(sums)
            by_place[place, name].append(sums)
    of_all = defaultdict[int, list[Sums]](list)
    for (label, _), sums in all_cells.items():
        place = places.get(label)
        if place is not None:
            of_all[place].append(sums)
    groups = sorted(
        (Group(name, add_up(sums, None)) for name, sums in by_group.items()),
        key=lambda group: (group.totals.cost_cents, group.totals.calls, group.name),
        reverse=True,
    )
    totals = add_up((sums for each in of_all.values() for sums in each), None)
    shown = groups[:most]
    with_rest = _add_rest(shown, totals)
    made = []
    for place, interval in enumerate(steps):
        whole = add_up(of_all[place], None)
        parts = [add_up(by_place.get((place, group.name or ""), ()), None) for group in shown]
        if len(with_rest) > len(shown):
            parts.append(_subtract(whole, parts))
        made.append(Step(interval, whole, parts))
    return Series(
        totals=totals,
        groups=with_rest,
        listed=_add_rest(groups[:MAX_LISTED], totals),
        steps=made,
    )


def _add_rest(groups: Sequence[Group], totals: Totals) -> Sequence[Group]:
    """Return the groups, followed by the rest if it has any calls or cost."""
    rest = _subtract(totals, [group.totals for group in groups])
    return [*groups, Group(None, rest)] if rest.calls or rest.cost_cents > 1e-6 else groups


def _find_places(steps: Sequence[Interval]) -> dict[str, int]:
    """Return the index of the step for each hour and each day, which are keys as in ``Cell``."""
    places: dict[str, int] = {}
    for place, step in enumerate(steps):
        hour = step.start
        while hour < step.end:
            places[format_hour(hour)] = place
            places.setdefault(format_hour(hour)[:10], place)
            hour += HOUR
    return places


def add_totals(parts: Sequence[Totals]) -> Totals:
    """Return the sums of calls, failures, tokens and costs over ``parts``."""
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in _SUMMED}
    return Totals(tokens=sum((part.tokens for part in parts), ZERO), rejected=None, **sums)


def _subtract(whole: Totals, parts: Sequence[Totals]) -> Totals:
    """Return the calls, failures, tokens and costs of ``whole`` that are in none of ``parts``."""
    taken = add_totals(parts)
    sums: dict[str, Any] = {
        name: max(0, getattr(whole, name) - getattr(taken, name)) for name in _SUMMED
    }
    tokens = {
        name: max(0, (getattr(whole.tokens, name) or 0) - (getattr(taken.tokens, name) or 0))
        for name in NAMES
    }
    return Totals(tokens=TokenCounts(**tokens), rejected=None, **sums)
