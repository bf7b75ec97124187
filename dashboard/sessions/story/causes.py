"""The reasons of the costs of a session's calls: each cent of a call has one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dashboard.paid_parts import find_part
from metering.formats import format_count
from store.traces.sessions.steps import Step

type Reason = Literal[
    "reads", "break", "fill", "new", "resent", "input", "output", "search", "compact", "side",
    "fail", "agent",
]  # fmt: skip
type Amounts = Mapping[Reason, float]

_WORDS: Mapping[Reason, str] = {
    "reads": "carrying the context",
    "fill": "filling the cache at the beginning",
    "new": "writing what was new to the cache",
    "resent": "sending the conversation again uncached",
    "input": "uncached input",
    "output": "output",
    "search": "web searches",
    "side": "side calls",
}
_COUNTED: Mapping[Reason, str] = {
    "break": "cache break",
    "compact": "compaction",
    "fail": "failed call",
    "agent": "subagent",
}
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_READS, _WRITES = find_part("cache_read"), find_part("cache_write_5m")
_INPUT, _OUTPUT = find_part("input"), find_part("output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A reason with its words, and its cost in US cents."""

    reason: Reason
    words: str
    cents: float


def count_words(count: int, noun: str, first: str = "one") -> str:
    """Return a number with a noun: ``a cache break`` (``first``: "a"), ``two cache breaks``, ``12 cache
    breaks``."""
    if count == 1:
        return f"{first} {noun}"
    return f"{_NUMBERS[count] if count < len(_NUMBERS) else format_count(count)} {noun}s"


def explain_steps(steps: Sequence[Step]) -> dict[int, Amounts]:
    """Return the costs of each call by reason in US cents, by row id. ``steps`` are in order of time."""
    last: dict[str | None, Step] = {}
    found: dict[int, Amounts] = {}
    for step in steps:
        found[step.id] = _explain(step, last.get(step.agent_id))
        if not (step.is_failed or step.is_side_call or step.is_compaction):
            last[step.agent_id] = step
    return found


def list_causes(
    steps: Iterable[Step], amounts: Mapping[int, Amounts], *, agents_apart: bool = False
) -> list[Cause]:
    """Return the reasons of the cost of ``steps``, the most expensive first. A cache break may cost
    nothing.

    ``amounts`` are those of ``explain_steps``. ``agents_apart``: all calls of subagents are one reason."""
    sums: dict[Reason, float] = {}
    things: dict[Reason, set[object]] = {}
    for step in steps:
        is_apart = agents_apart and step.agent_id is not None
        parts: Amounts = {"agent": step.cents} if is_apart else amounts[step.id]
        for reason, cents in parts.items():
            sums[reason] = sums.get(reason, 0.0) + cents
            things.setdefault(reason, set()).add(step.agent_id if is_apart else step.id)
    causes = [
        Cause(reason=reason, words=_name(reason, len(things[reason])), cents=cents)
        for reason, cents in sums.items()
        if cents > 0 or reason == "break"
    ]
    return sorted(causes, key=lambda each: -each.cents)


def _name(reason: Reason, count: int) -> str:
    noun = _COUNTED.get(reason)
    return _WORDS[reason] if noun is None else count_words(count, noun, first="a")


def _explain(step: Step, before: Step | None) -> Amounts:
    if step.is_failed:
        return {"fail": step.cents}
    if step.is_compaction:
        return {"compact": step.cents}
    if step.is_side_call:
        return {"side": step.cents}
    cents = dict.fromkeys((_READS, _WRITES, _INPUT, _OUTPUT), 0.0)
    others = 0.0
    for component, amount in step.turn.cents.items():
        part = find_part(component)
        if part in cents:
            cents[part] += amount
        else:
            others += amount
    broken = step.turn.cache_break
    extra = 0.0 if broken is None else broken.extra_cost_cents or 0.0
    writes = max(cents[_WRITES] - extra, 0.0)
    uncached = max(cents[_INPUT] - max(extra - cents[_WRITES], 0.0), 0.0)
    resent = uncached * _share_resent(step, before)
    found: Amounts = {
        "reads": cents[_READS],
        "break": extra,
        "fill" if before is None else "new": writes,
        "resent": resent,
        "input": uncached - resent,
        "output": cents[_OUTPUT],
        "search": others,
    }
    return {
        reason: amount
        for reason, amount in found.items()
        if amount > 0 or (reason == "break" and broken is not None)
    }


def _share_resent(step: Step, before: Step | None) -> float:
    """Return the share of the uncached input that the call before had sent already, from 0 to 1.

    It is estimated by that call's tokens, if nothing of the prompt is cached; otherwise it is 0."""
    tokens = step.turn.tokens
    uncached = tokens.input_tokens or 0
    is_cached = tokens.cache_read_input_tokens or tokens.cache_creation_input_tokens
    if before is None or is_cached or not uncached or step.turn.is_shortened:
        return 0.0
    earlier = (before.turn.tokens.prompt or 0) + (before.turn.tokens.output_tokens or 0)
    return min(earlier / uncached, 1.0) if (step.turn.new_messages or 0) > 0 else 0.0
