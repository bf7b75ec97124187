"""The figures of a run: what was measured, what it should be, and whether it is.

They are printed as rows of one table, kept as JSON, and drawn by ``bench.report``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

type Verdict = Literal["met", "NOT MET", "not measured", ""]

TITLE_WIDTH = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, with the range of its rounds.

    ``target`` is the most that it may be, or the least where ``is_least``. ``value`` is None where it
    could not be measured, and ``note`` says why. ``row`` names it in JSON and in plots."""

    row: str
    title: str
    value: float | None
    unit: str = ""
    target: float | None = None
    is_least: bool = False
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.target is None:
            return ""
        if self.value is None:
            return "not measured"
        is_met = self.value >= self.target if self.is_least else self.value <= self.target
        return "met" if is_met else "NOT MET"

    def format_value(self) -> str:
        return "-" if self.value is None else format_number(self.value, self.unit)

    def format_range(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return f"{format_number(self.low)} .. {format_number(self.high)}"

    def format_target(self) -> str:
        if self.target is None:
            return ""
        number = format_number(self.target, self.unit)
        return number if self.target == 0 else f"{'>=' if self.is_least else '<='} {number}"


def make_figure(
    row: str,
    title: str,
    values: Sequence[float],
    unit: str = "",
    *,
    target: float | None = None,
    is_least: bool = False,
    note: str = "",
) -> Figure:
    """Return the median of the values of several rounds, with their range, or a row without a value."""
    return Figure(
        row=row,
        title=title,
        value=median(values) if values else None,
        unit=unit,
        target=target,
        is_least=is_least,
        low=min(values, default=None),
        high=max(values, default=None),
        note=note,
    )


def format_number(value: float, unit: str = "") -> str:
    """Return a number with three digits that matter, and its unit."""
    digits = max(0, 2 - _count_digits(value))
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}" if unit else text


def _count_digits(value: float) -> int:
    """Return how many digits stand before the point, less one; whole numbers need none after it."""
    return 2 if value == int(value) else len(str(int(abs(value)))) - 1


def format_row(figure: Figure) -> str:
    """Return the line of a figure in the table that a terminal shows."""
    cells = (
        f"{figure.title:{TITLE_WIDTH}} {figure.format_value():>12}",
        f"{figure.format_range():>20}",
        f"{figure.format_target():>12}",
        figure.verdict,
        f"({figure.note})" if figure.note else "",
    )
    return "  ".join(cells).rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a run: its figures, how long it took, and what others took of the machine."""

    name: str
    seconds: float
    others_share: float
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A whole run. ``state`` says on what: versions, processors, time, the command."""

    state: Mapping[str, Any]
    sections: Sequence[Section] = field(default_factory=list)

    @property
    def figures(self) -> list[Figure]:
        return [figure for section in self.sections for figure in section.figures]

    def find(self, row: str) -> Figure | None:
        """Return the figure of a row, or None where it was not part of the run."""
        return next((figure for figure in self.figures if figure.row == row), None)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the run that a file has. Raises OSError, and ValueError for other JSON."""
        try:
            document = json.loads(path.read_text())
            sections = [
                Section(**section | {"figures": [Figure(**each) for each in section["figures"]]})
                for section in document["sections"]
            ]
            return cls(state=document["state"], sections=sections)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a file of results: {error}") from error


def summarize(figures: Sequence[Figure]) -> str:
    """Return how many targets are met, and which are not."""
    judged = [figure for figure in figures if figure.target is not None]
    open_ones = [figure for figure in judged if figure.verdict != "met"]
    lines = [f"{len(judged) - len(open_ones)} of {len(judged)} targets met"]
    lines += [f"  {figure.verdict}: {figure.title}" for figure in open_ones]
    return "\n".join(lines)
