"""The steps of a session: its calls in the order of time, with numbers and deeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from metering.entry import NO_ERROR
from runtime import clock
from store.traces.calls.tool_uses import StoredUse
from store.traces.sessions.deeds import Deeds
from store.traces.sessions.session_reader import SIDE_CALL, Turn

COMPACTION = "compaction"  # the class of requests that shorten the history


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One call, which is a turn unless it failed.

    ``number`` counts the turns from 1 on, and is None for a call that failed. ``failures`` is the
    number of its uses of tools that failed. ``idle_ms`` is the time before it in which no call of the
    session ran, 0 for the first."""

    turn: Turn
    number: int | None
    uses: tuple[StoredUse, ...]
    said: str | None
    agent_type: str | None
    failures: int
    started: datetime
    ended: datetime
    idle_ms: float

    @property
    def id(self) -> int:
        """Return the row id of the call."""
        return self.turn.id

    @property
    def agent_id(self) -> str | None:
        """Return the id of the agent, None for the main agent."""
        return self.turn.agent_id

    @property
    def is_failed(self) -> bool:
        """Return whether the call failed. A client that disconnects is not a failure."""
        return self.turn.outcome not in NO_ERROR

    @property
    def is_side_call(self) -> bool:
        """Return whether the call is outside the conversation, such as one that asks for a title."""
        return self.turn.request_class == SIDE_CALL

    @property
    def is_compaction(self) -> bool:
        """Return whether the call summarised the conversation to shorten it."""
        return self.turn.request_class == COMPACTION

    @property
    def cents(self) -> float:
        """Return the cost in US cents, 0 if unknown."""
        return self.turn.cost_cents or 0.0

    @property
    def result_tokens(self) -> int | None:
        """Return the approximate number of tokens in the results of its tools, or None if unknown."""
        known = [use.result_tokens for use in self.uses if use.result_tokens is not None]
        return sum(known) if known else None


def make_steps(turns: Sequence[Turn], deeds: Deeds, first_number: int = 1) -> list[Step]:
    """Return a step for each turn, in the order of time, numbered from ``first_number`` on."""
    failed_names = _count_named_failures(turns)
    steps: list[Step] = []
    number, ended = first_number - 1, None
    for turn in turns:
        is_failed = turn.outcome not in NO_ERROR
        started = clock.parse_instant(turn.created_at)
        number += 0 if is_failed else 1
        uses = tuple(deeds.uses.get(turn.id, ()))
        problems = sum(use.problem is not None for use in uses)
        step = Step(
            turn=turn,
            number=None if is_failed else number,
            uses=uses,
            said=deeds.said.get(turn.id),
            agent_type=deeds.agent_types.get(turn.id),
            failures=max(problems, failed_names.get(turn.id, 0)),
            started=started,
            ended=started + timedelta(milliseconds=turn.duration_ms or 0),
            idle_ms=_measure_pause(ended, started),
        )
        steps.append(step)
        ended = step.ended if ended is None else max(ended, step.ended)
    return steps


def sum_cents(steps: Iterable[Step]) -> float:
    """Return the total cost of steps in US cents."""
    return sum(step.cents for step in steps)


def _count_named_failures(turns: Sequence[Turn]) -> dict[int, int]:
    """Return the number of failed tools of a turn by row id, as named by the turn that continues it.

    These names stay when the texts of results are removed, and older calls have nothing else."""
    known = {turn.id for turn in turns}
    counts: dict[int, int] = {}
    for turn in turns:
        if turn.failed_tools:
            used_by = turn.previous_id if turn.previous_id in known else turn.id
            count = len(turn.failed_tools.split(","))
            counts[used_by or turn.id] = max(counts.get(used_by or turn.id, 0), count)
    return counts


def _measure_pause(ended: datetime | None, started: datetime) -> float:
    return 0.0 if ended is None else max((started - ended).total_seconds() * 1000, 0.0)
