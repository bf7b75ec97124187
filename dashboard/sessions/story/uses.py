"""The tools of a session: how often each was used, what failed, what brought most in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from dashboard.what_was_done import name_object
from store.traces.calls.tool_uses import StoredUse
from store.traces.sessions.steps import Step

MOST_TARGETS = 20


@dataclass(slots=True, kw_only=True)
class ToolSum:
    """The uses of a tool. ``server`` is empty for the client's own; ``problems`` are counted by words."""

    server: str
    tool: str
    uses: int = 0
    failed: int = 0
    results: list[int] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def result_tokens(self) -> int:
        """Return about how many tokens all results have."""
        return sum(self.results)

    @property
    def median_tokens(self) -> int | None:
        """Return about how many tokens a usual result has, None where there is none."""
        return round(median(self.results)) if self.results else None

    @property
    def usual_problems(self) -> str:
        """Return what went wrong most often."""
        return ", ".join(
            f"{words} ({count})" if count > 1 else words
            for words, count in self.problems.most_common(3)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSum:
    """A target of a tool, with about how many tokens it brought in, and where it was first."""

    tool: str
    name: str
    uses: int
    result_tokens: int
    first: Step


def list_tools(steps: Sequence[Step]) -> list[ToolSum]:
    """Return the tools that were used, those that brought most tokens first."""
    sums: dict[tuple[str, str], ToolSum] = {}
    for step in steps:
        for use in step.uses:
            server, tool = use.server or "", use.tool or "—"
            each = sums.setdefault((server, tool), ToolSum(server=server, tool=tool))
            each.uses += 1
            if use.problem is not None:
                each.failed += 1
                each.problems[use.problem or "failed"] += 1
            if use.result_tokens is not None:
                each.results.append(use.result_tokens)
    return sorted(sums.values(), key=lambda each: (-each.result_tokens, -each.uses, each.tool))


def list_targets(steps: Sequence[Step], root: str) -> list[TargetSum]:
    """Return what brought most tokens in, the most first. Paths are displayed from ``root`` on."""
    found: dict[tuple[str, str], list[tuple[Step, StoredUse]]] = {}
    for step in steps:
        for use in step.uses:
            if use.target and use.result_tokens:
                key = (use.server or use.tool or "—", name_object(use, root))
                found.setdefault(key, []).append((step, use))
    sums = [
        TargetSum(
            tool=tool,
            name=name,
            uses=len(uses),
            result_tokens=sum(use.result_tokens or 0 for _, use in uses),
            first=uses[0][0],
        )
        for (tool, name), uses in found.items()
    ]
    return sorted(sums, key=lambda each: -each.result_tokens)[:MOST_TARGETS]
