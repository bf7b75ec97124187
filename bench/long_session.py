"""A session as a coding agent makes it in a day: 600 turns, whose last request has 500 KB."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import batched
from pathlib import Path
from random import Random

from bench.filling import make_entry
from metering.entry import UsageLogEntry
from runtime import clock
from store.traces.database import TraceDatabase

TURNS, LAST_BYTES = 600, 500_000
FRONT_BYTES = 60_000
SESSION = "bench-long-session"
_BATCH = 50
_WORDS = [
    "the",
    "file",
    "line",
    "test",
    "value",
    "of",
    "is",
    "in",
    "not",
    "call",
    "cache",
    "token",
    "a",
    "to",
    "fix",
    "read",
    "write",
]


def add_session(path: Path) -> int:
    """Store the session after all existing calls, and return the id of its last call."""
    with TraceDatabase(path) as traces:
        for batch in batched(_entries(), _BATCH):
            traces.insert(batch)
        traces.connection.execute(
            "insert into predecessors (usage_id, previous_id)"
            " select id, id - 1 from usage where session_id = ? and message_count > 1",
            (SESSION,),
        )
        traces.connection.execute("pragma wal_checkpoint(truncate)")
        row = traces.connection.execute("select max(id) from usage").fetchone()
        return int(row[0])


def _entries() -> Iterator[UsageLogEntry]:
    dice = Random(6)  # noqa: S311 - no secret
    began = clock.now() - timedelta(hours=8)
    front = {
        "model": "claude-opus-4-5",
        "max_tokens": 32_000,
        "stream": True,
        "system": [{"type": "text", "text": _say(dice, FRONT_BYTES // 3)}],
        "tools": [
            {"name": f"tool_{n}", "description": _say(dice, FRONT_BYTES // 24)} for n in range(16)
        ],
    }
    share = (LAST_BYTES - FRONT_BYTES) // TURNS - 380  # of a turn, without what is around its words
    messages: list[object] = []
    for turn in range(TURNS):
        given = {"type": "text", "text": _say(dice, share // 2)}
        if turn:
            given = {
                "type": "tool_result",
                "tool_use_id": f"toolu_{turn - 1}",
                "content": _say(dice, share),
            }
        messages.append({"role": "user", "content": [given]})
        said = [
            {"type": "text", "text": f"**Turn {turn}.** {_say(dice, 60)}"},
            {
                "type": "tool_use",
                "id": f"toolu_{turn}",
                "name": "Edit",
                "input": {"file_path": "/a.py", "old_string": "x = 1", "new_string": "x = 2"},
            },
        ]
        entry = make_entry(1, began + timedelta(seconds=40 * turn), dice, has_bodies=False)
        yield replace(
            entry,
            entry_id=clock.new_id(),
            session_id=SESSION,
            message_count=len(messages),
            request_body=json.dumps(front | {"messages": messages}, separators=(",", ":")).encode(),
            response_body=json.dumps({"content": said, "stop_reason": "tool_use"}).encode(),
        )
        messages.append({"role": "assistant", "content": said})


def _say(dice: Random, chars: int) -> str:
    return " ".join(dice.choices(_WORDS, k=chars // 4))[:chars]
