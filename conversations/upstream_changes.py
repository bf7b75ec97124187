"""The changes that upstream says it has made to a request before the model was given it."""

from metering.usage import MAX_PASSES
from wire.block import COMPACTION
from wire.envelope import Envelope
from wire.json_reading import as_count


def describe_changes(said: Envelope) -> str:
    """Return in one sentence what upstream has changed, empty where the response says nothing of it."""
    changes = []
    if said.edits:
        changes.append(_describe_edits(said))
    if any(each.text("type") == COMPACTION for each in said.usage.list_passes(MAX_PASSES)[:-1]):
        changes.append("summed up the history")
    if dropped := said.dropped_thinking:
        changes.append(f"dropped {_count(dropped, 'block of thinking', 'blocks of thinking')}")
    return f"Changed by upstream: it {' and '.join(changes)}." if changes else ""


def _describe_edits(said: Envelope) -> str:
    """Return what edits of the context took out, as far as they count it."""
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
