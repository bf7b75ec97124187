"""The figures of a run: the measured value, its target, and whether it is met.

They are printed as rows of one table, stored as JSON, and drawn by ``bench.report``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

type Verdict = Literal["met", "NOT MET", "not measured", ""]
# What must be equal in two runs for their sections to stand in one file.
SAME_STATE = ("is_quick", "commit", "python", "mitmproxy", "processors", "memory_gb", "system")

TITLE_WIDTH = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, with the range over its rounds.

    ``target`` is its maximum, or its minimum if ``is_least``. ``value`` is None if it could not be
    measured, and ``note`` says why. ``row`` names it in JSON and in plots."""

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
    """Return the median of the values of several rounds, with their range.

    Without values, the figure has no value."""
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
    """Return a number with three significant digits, and its unit."""
    digits = max(0, 2 - _count_digits(value))
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}" if unit else text


def _count_digits(value: float) -> int:
    """Return the number of digits before the point, less one; 2 for a whole number.

    A number with 2 needs no digits after the point."""
    return 2 if value == int(value) else len(str(int(abs(value)))) - 1


def format_row(figure: Figure) -> str:
    """Return a figure as a line of the table on the terminal."""
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
    """A section of a run: its figures, its duration, and the share of the machine that other programs
    used.

    It is not whole if it failed, or if only parts of it were asked for."""

    name: str
    seconds: float
    others_share: float
    figures: Sequence[Figure]
    is_whole: bool = True

    def add_rows_of(self, old: "Section") -> "Section":
        """Return the section with the rows of ``old`` that it lacks, unless it is whole."""
        if self.is_whole:
            return self
        rows = {figure.row for figure in self.figures}
        kept = [figure for figure in old.figures if figure.row not in rows]
        seconds = self.seconds + old.seconds
        busy_s = self.others_share * self.seconds + old.others_share * old.seconds
        return replace(
            self,
            seconds=round(seconds, 1),
            others_share=round(busy_s / seconds, 3) if seconds else 0.0,
            figures=[*kept, *self.figures],
            is_whole=old.is_whole,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A whole run, or several runs of the same commit.

    ``state`` describes them: versions, processors, time, and commands."""

    state: Mapping[str, Any]
    sections: Sequence[Section] = field(default_factory=list)

    @property
    def figures(self) -> list[Figure]:
        return [figure for section in self.sections for figure in section.figures]

    def find(self, row: str) -> Figure | None:
        """Return the figure of a row, or None if it was not measured."""
        return next((figure for figure in self.figures if figure.row == row), None)

    def continue_with(self, state: Mapping[str, Any]) -> "Results":
        """Return these results with ``state``, that of a run that continues them.

        Raises ValueError if the states differ in what is measured."""
        for name in SAME_STATE:
            if self.state[name] != state[name]:
                raise ValueError(
                    f"it is of a run with {name} {self.state[name]}, not {state[name]}"
                )
        commands = dict.fromkeys([*self.state["command"].split(" && "), state["command"]])
        peers = {**self.state["peers"], **state["peers"]}
        return replace(self, state={**self.state, "command": " && ".join(commands), "peers": peers})

    def with_section(self, section: Section) -> "Results":
        """Return the results with a newly measured section in place of an older one."""
        sections = {each.name: each for each in self.sections}
        if old := sections.get(section.name):
            section = section.add_rows_of(old)
        return replace(self, sections=[*(sections | {section.name: section}).values()])

    def write(self, path: Path) -> None:
        """Write the results to a file, replaced at once when they are complete."""
        draft = path.with_name(path.name + ".part")
        draft.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the results in a file. Raises OSError, and ValueError for other JSON."""
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
    """Return a sentence on how many targets are met, and which are not."""
    judged = [figure for figure in figures if figure.target is not None]
    open_ones = [figure for figure in judged if figure.verdict != "met"]
    lines = [f"{len(judged) - len(open_ones)} of {len(judged)} targets met"]
    lines += [f"  {figure.verdict}: {figure.title}" for figure in open_ones]
    return "\n".join(lines)
