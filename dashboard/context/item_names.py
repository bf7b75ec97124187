"""The names of the items of a conversation: the file that was read, the command that was run."""

import sqlite3
from collections.abc import Sequence

from conversations.timeline import Item
from dashboard.what_was_done import find_root, name_object
from metering.tool_names import split_name
from store.traces.calls.tool_uses import StoredUse, read_uses_of
from store.traces.sessions.session_places import list_targets


def name_items(db: sqlite3.Connection, session_id: str, items: Sequence[Item]) -> list[str]:
    """Return for each item upon what its tool was used, empty where that is not known.

    Raises sqlite3.Error."""
    answers = {item.first.previous_id for item in items if item.first.previous_id is not None}
    uses = read_uses_of(db, sorted(answers))
    root = find_root(list_targets(db, session_id))
    return [name_item(item, uses.get(item.first.previous_id or 0, []), root) for item in items]


def name_item(item: Item, uses: Sequence[StoredUse], root: str) -> str:
    """Return the object of an item, given the uses in the answer that its first call was the next one to.

    The item is of that answer, or of the results behind it, if its message is one of the last two."""
    span, count = item.share.span, item.first.message_count or 0
    if span.category not in ("tool_call", "tool_result") or (span.message or 0) < count - 2:
        return ""
    server, tool = split_name(span.name or "")
    alike = [use for use in uses if (use.server or "", use.tool or "") == (server, tool)]
    place = span.block or 0
    if span.category == "tool_result" and place < len(uses) and uses[place] in alike:
        alike = [uses[place]]
    names = {name_object(use, root) for use in alike}
    return names.pop() if len(names) == 1 else ""
