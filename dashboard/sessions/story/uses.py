"""The tools of a session: how often each was used and failed, and which results were largest."""

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
    """The uses of a tool. ``server`` is the MCP server, "" for the client's own tools; ``problems`` counts
    failures by description."""

    server: str
    tool: str
    uses: int = 0
    failed: int = 0
    results: list[int] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def result_tokens(self) -> int:
        """Return the estimated number of tokens of all results."""
        return sum(self.results)

    @property
    def median_tokens(self) -> int | None:
        """Return the estimated median number of tokens of a result, None without results."""
        return round(median(self.results)) if self.results else None

    @property
    def usual_problems(self) -> str:
        """Return the most frequent failures with their numbers, as text."""
        return ", ".join(
            f"{words} ({count})" if count > 1 else words
            for words, count in self.problems.most_common(3)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSum:
    """A target of tool uses, such as a file, with the estimated tokens of its results. ``first`` is the
    first call that used it."""

    tool: str
    name: str
    uses: int
    result_tokens: int
    first: Step


def list_tools(steps: Sequence[Step]) -> list[ToolSum]:
    """Return the tools that were used, those with the largest results first."""
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
    """Return the targets with the largest results, the largest first. Paths are relative to ``root``."""
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
