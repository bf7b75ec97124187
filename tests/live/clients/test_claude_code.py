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
from tests.live.clients.claude_code import claude_code, run_claude_code
from tests.live.clients.programs import needs_claude_code
from tests.live.messages import Answer, error, text, tool_use
from tests.live.service import Endpoint, Row
from tests.rawclient import TIMEOUT_S
from tests.upstream import Gate, Script, SeenRequest


def assert_claude_code_entries(endpoint: Endpoint, turns: list[Answer], session: str) -> list[Row]:
    """One entry for each message request that the upstream saw, each with its session."""
    seen = [r for r in endpoint.upstream.requests if r.target.partition("?")[0] == TARGET]
    rows = rows_in_order(endpoint)
    assert_bodies(rows, seen)
    for row, request, turn in zip(rows, seen, turns, strict=True):
        product = (request.header("user-agent") or "").split()[0]
        assert product.startswith("claude-cli/")
        assert_entry(row, turn, streamed=True, client=product)
        assert row["client"] == product
        assert row["session_id"] == request.header("x-claude-code-session-id") == session
    return rows


@needs_claude_code
def test_claude_code_prints_the_answer(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.upstream.enqueue(REPLY.script(streamed=True))
    result = run_claude_code(endpoint, tmp_path, "say hi")
    assert result["result"] == REPLY.text
    [row] = assert_claude_code_entries(endpoint, [REPLY], result["session_id"])
    assert row["cost_cents"] == pytest.approx(result["total_cost_usd"] * 100)
    assert row["title_text"] == "say hi"


@needs_claude_code
def test_claude_code_runs_a_command_and_a_tool(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "fare.txt").write_text("the fare is 4711\n")
    turns = [
        Answer(content=[text("Running."), tool_use("Bash", {"command": "echo meter-$((40+2))"})]),
        Answer(
            content=[
                tool_use("Read", {"file_path": str(tmp_path / "fare.txt")}, block_id="toolu_02")
            ]
        ),
        REPLY,
    ]
    endpoint.upstream.enqueue(*(turn.script(streamed=True) for turn in turns))
    result = run_claude_code(endpoint, tmp_path, "--allowedTools", "Bash(echo:*)", "--", "go")
    assert result["result"] == REPLY.text
    _asked, ran, read = endpoint.upstream.requests
    assert "meter-42" in _tool_results(ran)
    assert "the fare is 4711" in _tool_results(read)
    rows = assert_claude_code_entries(endpoint, turns, result["session_id"])
    cents = sum(row["cost_cents"] for row in rows)
    assert cents == pytest.approx(result["total_cost_usd"] * 100)


def _tool_results(seen: SeenRequest) -> str:
    """The text of the results of tools in the last message."""
    content = json.loads(seen.body)["messages"][-1]["content"]
    return json.dumps([block for block in content if block["type"] == "tool_result"])


@needs_claude_code
@pytest.mark.parametrize(
    ("script", "status", "outcome"),
    [
        pytest.param(error(529, "overloaded_error", [SOON]), 529, "upstream_error", id="529"),
        pytest.param(error(400, "invalid_request_error"), 400, "upstream_error", id="400"),
        pytest.param(CUT, 200, "upstream_interrupted", id="cut"),
    ],
)
def test_claude_code_that_asks_again_makes_an_entry_each_time(
    live: Endpoint, tmp_path: Path, script: Script, status: int, outcome: str
) -> None:
    live.upstream.enqueue(script, REPLY.script(streamed=True))
    result = run_claude_code(live, tmp_path, "say hi")
    assert result["result"] == REPLY.text
    rows = rows_in_order(live)
    assert [(row["status_code"], row["outcome"]) for row in rows] == [
        (status, outcome),
        (200, "complete"),
    ]
    assert {row["session_id"] for row in rows} == {result["session_id"]}
    assert_bodies(rows, live.upstream.requests)


@needs_claude_code
def test_claude_code_that_is_interrupted_is_an_entry(live: Endpoint, tmp_path: Path) -> None:
    gate = Gate()
    live.upstream.enqueue(REPLY.held_after_text(gate))
    with claude_code(live, tmp_path, "say hi") as program:
        gate.wait_reached()
        program.interrupt()
        assert live.upstream.requests[0].abandoned.wait(TIMEOUT_S)
    row = live.row()
    assert row["outcome"] == "client_disconnected"
    assert row["session_id"]
