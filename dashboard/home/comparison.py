"""The comparison of a period with the one before it, by group, sorted by value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dashboard.overview.series import add_totals
from store.traces.sums.requested_models import find_requested
from store.traces.sums.rollup import UNKNOWN
from store.traces.sums.usage_report import Totals

_NOTHING = Totals()


@dataclass(frozen=True, slots=True)
class Line:
    """A group in both periods. ``name`` is None for the rest of the groups and for the sum of all."""

    name: str | None
    now: Totals
    before: Totals


@dataclass(frozen=True, slots=True)
class Comparison:
    """The groups with the largest values, the sum of the others (None without others), and of all."""

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
    """Return the comparison of two periods by group. Groups are sorted by ``measure``.

    At most ``limit`` groups are shown. ``smaller`` is the sum of groups that are not in ``now``, for
    they are not among the largest."""
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
    """Return whether a group is of calls without a name, or of calls whose response named no model."""
    return line.name == UNKNOWN or find_requested(line.name or "") is not None


def _has_value(line: Line, measure: Callable[[Totals], float]) -> bool:
    """Return whether a group has a value in either period, or may have one, since its price is unknown."""
    is_unknown = line.now.unpriced or line.now.unpriced_tokens
    return bool(measure(line.now) or measure(line.before) or is_unknown)


def _add_lines(lines: Sequence[Line]) -> Line:
    return Line(
        None, add_totals([line.now for line in lines]), add_totals([line.before for line in lines])
    )
