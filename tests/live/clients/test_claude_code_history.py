"""Transcripts that Claude Code itself wrote, imported beside the calls that were recorded of them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from store.control.database import ControlDatabase
from tests.live.clients.checks import rows_in_order
from tests.live.clients.claude_code import ToolSession
from tests.live.clients.programs import needs_claude_code
from tests.live.command import call_here, environment
from tests.live.service import Row


def import_into(data_dir: Path, session: ToolSession) -> dict[str, Any]:
    folder = str(session.home / ".claude" / "projects")
    environ = environment(session.endpoint.service, TAXIMETER_DATA_DIR=str(data_dir))
    done = call_here(("import", "claude-code", folder, "--text", "--json"), environ)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def read(data_dir: Path) -> list[Row]:
    (path,) = data_dir.glob("traces/*/traces.db")
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute("select * from usage_log order by created_at, id").fetchall()
        return [dict(row) for row in rows]


@needs_claude_code
def test_a_transcript_has_the_calls_that_were_recorded_and_their_requests(
    tool_session: ToolSession, tmp_path: Path
) -> None:
    recorded = rows_in_order(tool_session.endpoint)
    # Beside the running service, whose recorder stores what is imported.
    found = import_into(tool_session.endpoint.service.data_dir, tool_session)
    assert (found["new"], found["already_there"]) == (0, 3)

    fresh = tmp_path / "fresh"
    with ControlDatabase(fresh / "control.db") as control:
        control.set_up()
    assert import_into(fresh, tool_session)["new"] == 3
    for ours, theirs in zip(read(fresh), recorded, strict=True):
        for name in (
            "message_id", "model", "session_id", "input_tokens", "output_tokens", "cost_cents",
            "cache_read_input_tokens", "stop_reason", "message_count", "tool_count", "title_text", "said_text",
        ):  # fmt: skip
            assert ours[name] == theirs[name], name
        assert_same_request(json.loads(ours["request_body"]), json.loads(theirs["request_body"]))


def assert_same_request(rebuilt: dict[str, Any], sent: dict[str, Any]) -> None:
    """Compare a request by its transcript with what was sent, which has one block more."""
    assert sent["system"][0]["text"].startswith("x-anthropic-billing-header")
    assert rebuilt["system"] == sent["system"][1:]
    assert rebuilt["tools"] == sent["tools"]
    for name in ("model", "max_tokens", "thinking", "context_management", "output_config"):
        assert rebuilt[name] == sent[name], name
    assert list(map(without_form, rebuilt["messages"])) == list(map(without_form, sent["messages"]))


def without_form(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with blocks: the client writes a single text as a string at times."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return message | {"content": blocks}
