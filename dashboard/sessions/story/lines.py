"""The line of a turn: a verb, its object, the outcome, and the words of the response."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Literal

from dashboard.formats import outcome_mark
from dashboard.what_was_done import ANSWER, SAYS, Deed, describe_deed, find_root
from metering.formats import format_number, format_short_tokens
from store.traces.calls.tool_uses import StoredUse
from store.traces.sessions.steps import Step

DEAR = 4  # times the median of a session's turns makes a cost bold
FILE, FOLDER, SEARCHES = "Read", "LS", frozenset({"Grep", "Glob"})
SUBAGENT_TOOLS = frozenset({"Task", "Agent"})
_SIDE_CALL = "Side call"

type LineKind = Literal["tool", "says", "answer", "side"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A turn as its line shows it. ``remark`` says what is unusual about its end without being a failure."""

    step: Step
    kind: LineKind
    deed: Deed
    problem: str
    remark: str
    is_dear: bool

    shape: ClassVar = "line"

    @property
    def is_failed(self) -> bool:
        """Return whether a tool use of the turn failed."""
        return bool(self.problem)

    @property
    def is_lookup(self) -> bool:
        """Return whether the turn only looks something up, without failure."""
        uses = self.step.uses
        return bool(uses) and not self.is_failed and all(map(_is_lookup, uses))

    @property
    def words(self) -> str:
        """Return the text after the verb."""
        problem = f"✕ {self.problem}" if self.problem else ""
        return " ".join(filter(None, (self.deed.words or self.deed.says, problem)))


@dataclass(frozen=True, slots=True)
class Scale:
    """Values that the lines of a session share. ``root`` is the folder that paths are relative to; turns
    that cost ``dear_cents`` or more are marked as expensive."""

    root: str = ""
    dear_cents: float = float("inf")

    def is_dear(self, cents: float | None) -> bool:
        """Return whether a turn with this cost is marked as expensive."""
        return cents is not None and cents >= self.dear_cents


def make_scale(steps: Sequence[Step]) -> Scale:
    """Return the root folder and the threshold of expensive turns for a session's calls."""
    costs = [step.cents for step in steps if not step.is_failed and step.cents > 0]
    root = find_root(use.target for step in steps for use in step.uses)
    return Scale(root, DEAR * median(costs) if len(costs) > 1 else float("inf"))


def make_line(step: Step, scale: Scale, *, is_last: bool, going_on: str = "") -> Line:
    """Return the line of a turn. ``is_last``: it is its agent's last turn for the prompt.

    ``going_on`` is a note in which turn the work continues, or ""."""
    kind, verb = _name_saying(step, is_last=is_last)
    deed = describe_deed(
        step.uses,
        step.said,
        stop_reason=step.turn.stop_reason,
        root=scale.root,
        said_verb=verb,
    )
    if deed is None:
        output = format_short_tokens(step.turn.tokens.output_tokens, "unknown")
        deed = Deed(verb=verb, says=f"{output} tokens of output")
    return Line(
        step=step,
        kind="tool" if step.uses else kind,
        deed=deed,
        problem=_find_problem(step, deed),
        remark="" if deed.is_failed else deed.problem or _find_remark(step) or going_on,
        is_dear=scale.is_dear(step.turn.cost_cents),
    )


def count_lookups(uses: Iterable[StoredUse]) -> str:
    """Return the numbers of things that were looked up as text: ``5 files, 1 search``."""
    files = searches = folders = 0
    for use in uses:
        files += use.tool == FILE
        searches += use.tool in SEARCHES
        folders += use.tool == FOLDER
    counts = (
        format_number(files, "file") if files else "",
        f"{searches} {'search' if searches == 1 else 'searches'}" if searches else "",
        format_number(folders, "folder") if folders else "",
    )
    return ", ".join(filter(None, counts))


def _is_lookup(use: StoredUse) -> bool:
    return use.server is None and (use.tool in {FILE, FOLDER} or use.tool in SEARCHES)


def _name_saying(step: Step, *, is_last: bool) -> tuple[LineKind, str]:
    """Return kind and verb for the line of a turn whose tool uses are unknown or none."""
    if step.is_side_call:
        return "side", _SIDE_CALL
    if step.turn.stop_reason == "tool_use":  # which tool is not known
        return "tool", "Tool"
    return ("answer", ANSWER) if is_last else ("says", SAYS)


def _find_problem(step: Step, deed: Deed) -> str:
    if not step.failures:
        return ""
    problem = (deed.problem if deed.is_failed else "") or "failed"
    return problem if step.failures == 1 else f"{problem}, {step.failures} failed"


def _find_remark(step: Step) -> str:
    """Return a label for the end of a turn if it is unusual, otherwise ""."""
    mark = outcome_mark(step.turn.outcome, None, step.turn.stop_reason)
    return "" if mark.kind == "ok" else mark.label
