"""Claude Code: what it prints, and what entries say."""

import json
from pathlib import Path

import pytest

from tests.live.clients.checks import (
    CUT,
    REPLY,
    SOON,
    TARGET,
    assert_bodies,
    assert_entry,
    rows_in_order,
)
from tests.live.clients.claude_code import ToolSession, run_claude_code
from tests.live.clients.programs import CLAUDE, needs_claude_code
from tests.live.command import call, environment
from tests.live.messages import MODEL, Answer, error, tool_use
from tests.live.service import API_KEY, Endpoint
from tests.upstream import SeenRequest

METER = tool_use("Bash", {"command": "echo meter-$((40+2))"})
ALLOWED = ("--allowedTools", "Bash(echo:*)")


@needs_claude_code
def test_claude_code_runs_a_command_and_a_tool_and_prints_the_answer(
    tool_session: ToolSession,
) -> None:
    result, turns = tool_session.result, tool_session.turns
    assert result["result"] == REPLY.text
    _asked, ran, has_read = seen = tool_session.seen
    assert "meter-42" in _tool_results(ran)
    assert "the fare is 4711" in _tool_results(has_read)
    rows = rows_in_order(tool_session.endpoint)
    assert_bodies(rows, seen)
    for row, request, turn in zip(rows, seen, turns, strict=True):
        assert request.target.partition("?")[0] == TARGET
        product = (request.header("user-agent") or "").split()[0]
        assert product.startswith("claude-cli/")
        assert_entry(row, turn, streamed=True, client=product)
        assert row["client"] == product
        session = request.header("x-claude-code-session-id")
        assert row["session_id"] == session == result["session_id"]
    assert rows[0]["title_text"] == "say hi"
    cents = sum(row["cost_cents"] for row in rows)
    assert cents == pytest.approx(result["total_cost_usd"] * 100)


def _tool_results(seen: SeenRequest) -> str:
    """The text of the results of tools in the last message."""
    content = json.loads(seen.body)["messages"][-1]["content"]
    return json.dumps([block for block in content if block["type"] == "tool_result"])


@needs_claude_code
def test_claude_code_that_asks_again_makes_an_entry_each_time(
    live: Endpoint, tmp_path: Path
) -> None:
    failures = [error(529, "overloaded_error", [SOON]), error(400, "invalid_request_error"), CUT]
    turns = [Answer(content=[METER]), Answer(content=[METER | {"id": "toolu_02"}]), REPLY]
    for failure, turn in zip(failures, turns, strict=True):
        live.upstream.enqueue(failure, turn.script(streamed=True))
    result = run_claude_code(live, tmp_path, *ALLOWED, "--", "go")
    assert result["result"] == REPLY.text
    rows = rows_in_order(live)
    assert [(row["status_code"], row["outcome"]) for row in rows] == [
        (529, "upstream_error"),
        (200, "complete"),
        (400, "upstream_error"),
        (200, "complete"),
        (200, "upstream_interrupted"),
        (200, "complete"),
    ]
    assert {row["session_id"] for row in rows} == {result["session_id"]}
    assert_bodies(rows, live.upstream.requests)


@needs_claude_code
def test_a_run_beats_a_settings_file_that_sets_another_base_url(
    live: Endpoint, tmp_path: Path
) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}}')
    live.upstream.otherwise = REPLY.script(streamed=True)
    quiet = dict.fromkeys(("DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), "1")
    environ = environment(live.service, ANTHROPIC_API_KEY=API_KEY, no_proxy="127.0.0.1", **quiet)
    environ["HOME"] = environ["TMPDIR"] = str(tmp_path)
    arguments = ("-p", "--model", MODEL, "--settings", '{"env": {"NAME": "meter"}}', "--", "hi")
    done = call(("run", "--endpoint", live.slug, "--", str(CLAUDE), *arguments), environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == REPLY.text
    assert f"{settings} sets ANTHROPIC_BASE_URL; this run does not use it." in done.stderr
    assert live.row()["run_id"]


@needs_claude_code
def test_lines_of_headers_say_for_whom_a_call_is_made(tool_session: ToolSession) -> None:
    """Blank lines and those without a colon are skipped, and blanks around values."""
    rows = tool_session.endpoint.rows()
    assert len(rows) == len(tool_session.seen) > 0
    for row in rows:
        assert (row["attributed_user"], row["project"]) == ("ann@example.com", "acme/shop")
        assert (row["tags"], row["attributes_left_out"]) == ('["env:dev","nightly"]', 1)
    for seen in tool_session.seen:
        assert not [name for name, _ in seen.headers if name.lower().startswith("x-taximeter-")]
