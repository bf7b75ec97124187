"""A line for each turn of a session: what it added, what it cost, how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from dashboard.cache_breaks import describe_cause, describe_cost
from dashboard.formats import Mark, outcome_mark
from metering.formats import format_count, format_duration, format_number
from runtime import clock
from store.traces.sessions.session_reader import Turn

LONG_GAP = timedelta(minutes=5)  # the usual life of a prompt cache


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLine:
    """A turn as its line shows it. ``title`` is None where the call of the same agent before it has the
    same one. ``gap`` is the time since the call before it, where that is long;
    ``failed_tools`` and ``cache_break`` say what
    went wrong. ``is_next_prompt``: the turn is the first one of another prompt of the user."""

    number: int
    turn: Turn
    mark: Mark
    title: str | None
    changes: tuple[str, ...]
    failed_tools: str
    cache_break: str | None
    gap: str | None
    is_next_prompt: bool


def make_lines(turns: Sequence[Turn], first_number: int = 1) -> list[TurnLine]:
    """Return the lines of turns, which are oldest first."""
    lines = []
    titles: dict[str | None, str | None] = {}
    last: Turn | None = None
    for number, turn in enumerate(turns, first_number):
        lines.append(
            TurnLine(
                number=number,
                turn=turn,
                mark=outcome_mark(turn.outcome, turn.status_code),
                title=None if titles.get(turn.agent_id) == turn.title_text else turn.title_text,
                changes=_list_changes(turn),
                failed_tools=f"{turn.failed_tools} failed" if turn.failed_tools else "",
                cache_break=_describe_break(turn),
                gap=_find_gap(last, turn),
                is_next_prompt=_is_next_prompt(last, turn),
            )
        )
        titles[turn.agent_id] = turn.title_text
        last = turn
    return lines


def _list_changes(turn: Turn) -> tuple[str, ...]:
    written = turn.tokens.cache_creation_input_tokens
    changes = [_describe_messages(turn)]
    if written:
        changes.append(f"{format_count(written)} tokens written to cache")
    return tuple(filter(None, changes))


def _describe_messages(turn: Turn) -> str:
    if turn.message_count is None:
        return ""
    if turn.new_messages is None:
        return _count_messages(turn.message_count)
    if turn.new_messages > 0:
        return f"+{_count_messages(turn.new_messages)}"
    if turn.new_messages == 0:
        return "no new messages"
    if turn.is_shortened:
        return f"compacted to {_count_messages(turn.message_count)}"
    return f"history cut to {_count_messages(turn.message_count)}"


def _describe_break(turn: Turn) -> str | None:
    found = turn.cache_break
    if found is None:
        return None
    written = turn.tokens.cache_creation_input_tokens
    return f"{describe_cause(found)} {describe_cost(found, written)}"


def _count_messages(count: int) -> str:
    return format_number(count, "message")


def _find_gap(last: Turn | None, turn: Turn) -> str | None:
    if last is None:
        return None
    gap = clock.parse_instant(turn.created_at) - clock.parse_instant(last.created_at)
    return format_duration(gap.total_seconds() * 1000) if gap > LONG_GAP else None


def _is_next_prompt(last: Turn | None, turn: Turn) -> bool:
    if last is None or turn.prompt_id is None:
        return False
    return turn.prompt_id != last.prompt_id
