"""A period set against the one before it, by group: what rose and what fell, the largest first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dashboard.overview.series import add_totals
from store.traces.sums.requested_models import find_requested
from store.traces.sums.rollup import UNKNOWN
from store.traces.sums.usage_report import Totals

_NOTHING = Totals()


@dataclass(frozen=True, slots=True)
class Line:
    """A group in both periods. ``name`` is None for the rest and for all of them."""

    name: str | None
    now: Totals
    before: Totals


@dataclass(frozen=True, slots=True)
class Comparison:
    """The groups with the largest values, the rest of them (None: there is none), and all."""

    lines: Sequence[Line]
    rest: Line | None
    total: Line


def compare(
    now: Mapping[str, Totals],
    before: Mapping[str, Totals],
    measure: Callable[[Totals], float],
    limit: int,
    smaller: Totals = _NOTHING,
) -> Comparison:
    """Return the comparison of two periods by group. ``measure`` is what they are sorted by.

    ``smaller`` are the totals of groups that are not among those of ``now``, all in one."""
    lines = [
        Line(name, now.get(name, _NOTHING), before.get(name, _NOTHING))
        for name in now.keys() | before.keys()
    ]
    lines.sort(
        key=lambda line: (-measure(line.now), -measure(line.before), -line.now.calls, line.name)
    )
    shown = [line for line in lines if _has_value(line, measure)][:limit]
    others = [line for line in lines if line not in shown]
    if len(shown) < limit and others and all(map(_is_unnamed, others)):
        shown, others = [*shown, replace(_add_lines(others), name=UNKNOWN)], []
    if smaller != _NOTHING:
        others.append(Line(None, smaller, _NOTHING))
    return Comparison(
        lines=shown,
        rest=_add_lines(others) if others else None,
        total=_add_lines([*shown, *others]),
    )


def _is_unnamed(line: Line) -> bool:
    """Return whether a group is of calls without a name: of those that got no model, too."""
    return line.name == UNKNOWN or find_requested(line.name or "") is not None


def _has_value(line: Line, measure: Callable[[Totals], float]) -> bool:
    """Return whether a group has something of what is measured, or may have: its price is not known."""
    is_unknown = line.now.unpriced or line.now.unpriced_tokens
    return bool(measure(line.now) or measure(line.before) or is_unknown)


def _add_lines(lines: Sequence[Line]) -> Line:
    return Line(
        None, add_totals([line.now for line in lines]), add_totals([line.before for line in lines])
    )
