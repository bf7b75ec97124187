"""The changes that upstream reports to have made to a request before the model got it."""

from typing import Literal

from metering.usage import MAX_PASSES
from wire.block import COMPACTION
from wire.envelope import Envelope
from wire.json_reading import as_count

# Parts of the history were left out, it was replaced by a summary, or blocks of thinking were left out.
type Change = Literal["cleared", "summed_up", "dropped_thinking"]


def list_changes(said: Envelope) -> list[Change]:
    """Return the kinds of changes that upstream made, empty if the response reports none."""
    changes: list[Change] = []
    if said.edits:
        changes.append("cleared")
    if said.has_passes and _is_summed_up(said):
        changes.append("summed_up")
    if said.dropped_thinking:
        changes.append("dropped_thinking")
    return changes


def _is_summed_up(said: Envelope) -> bool:
    """Return whether a pass made a summary, and another pass continued with it."""
    passes = said.usage.list_passes(MAX_PASSES)
    return any(each.text("type") == COMPACTION for each in passes[:-1])


def describe_changes(said: Envelope) -> str:
    """Return a sentence about the changes that upstream made, "" if the response reports none."""
    changes = [_describe(each, said) for each in list_changes(said)]
    return f"Changed by upstream: it {' and '.join(changes)}." if changes else ""


def _describe(change: Change, said: Envelope) -> str:
    match change:
        case "cleared":
            return _describe_edits(said)
        case "summed_up":
            return "summed up the history"
        case "dropped_thinking":
            count = said.dropped_thinking
            return f"dropped {_count(count, 'block of thinking', 'blocks of thinking')}"


def _describe_edits(said: Envelope) -> str:
    """Return a text about what context edits removed, with the numbers that they report."""
    counts = {
        name: sum(as_count(edit.get(name)) or 0 for edit in said.edits)
        for name in ("cleared_tool_uses", "cleared_thinking_turns", "cleared_input_tokens")
    }
    results, turns, tokens = counts.values()
    cleared = [
        *([_count(results, "tool call", "tool calls")] if results else ()),
        *([_count(turns, "turn of thinking", "turns of thinking")] if turns else ()),
    ]
    what = " and ".join(cleared) or "parts of the history"
    return f"cleared {what}" + (f" ({_count(tokens, 'token', 'tokens')})" if tokens else "")


def _count(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
