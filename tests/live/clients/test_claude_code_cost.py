"""The cost of a session by Claude Code, and by the entries of the session.

Claude Code reckons by a table of prices of its own. In version 2.1.329 it has the rates of ours for both
models here, so that every cent of a difference is a fault of one of the two.
"""

import json
import math
from pathlib import Path

import pytest

from metering.output_estimate import LARGEST_RATIO, LEAST_RATIO
from tests.live.clients.checks import rows_in_order
from tests.live.clients.claude_code import claude_code, run_claude_code
from tests.live.clients.programs import needs_claude_code
from tests.live.messages import MODEL, Answer, Counts, stream_of, text, tool_use
from tests.live.service import Endpoint, Row
from tests.upstream import Gate

SMALL_MODEL = "claude-haiku-5-5"
USAGE_COLUMNS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
    "cacheCreationEphemeral1hInputTokens": "cache_write_1h_tokens",
}
SUBAGENT = tool_use(
    "Agent",
    {
        "description": "Look up the fare",
        "prompt": "Run the meter.",
        "subagent_type": "general-purpose",
        "model": "haiku",
        "run_in_background": False,
    },
)
METER = tool_use("Bash", {"command": "echo meter-$((40+2))"}, block_id="toolu_02Meter")
# Prompts of the small model cost five times as much from 100,000 tokens on: both sides of that are here.
TURNS = [
    Answer(content=[text("Asking."), SUBAGENT], counts=Counts(read=0, write_5m=20480)),
    Answer(
        model=SMALL_MODEL,
        content=[text("Running."), METER],
        counts=Counts(input=907, output=61, read=0, write_5m=5003, write_1h=0),
    ),
    Answer(
        model=SMALL_MODEL,
        content=[text("The meter says 42.")],
        counts=Counts(input=91, output=37, read=5003, write_5m=0, write_1h=120_011),
    ),
    Answer(content=[text("It is 42.")], counts=Counts(input=3, output=211, read=20577)),
]
COMMANDS = ("--allowedTools", "Bash(echo:*)", "Agent", "--", "go")


def total(rows: list[Row], column: str, model: str) -> float:
    found: float = sum(row[column] for row in rows if row["model"] == model)
    return found


@needs_claude_code
def test_claude_code_and_the_entries_agree_on_the_cost_of_tools_and_a_subagent(
    buffered: Endpoint, tmp_path: Path
) -> None:
    buffered.upstream.enqueue(*(turn.script(streamed=True) for turn in TURNS))
    result = run_claude_code(buffered, tmp_path, *COMMANDS)
    assert result["result"] == TURNS[-1].text
    rows = rows_in_order(buffered)
    assert [row["model"] for row in rows] == [turn.model for turn in TURNS]
    assert [row["request_class"] for row in rows] == ["main", "subagent", "subagent", "main"]
    assert rows[1]["agent_id"] == rows[2]["agent_id"] is not None
    cents = sum(row["cost_cents"] for row in rows)
    assert cents == pytest.approx(result["total_cost_usd"] * 100, rel=1e-12)
    assert result["modelUsage"].keys() == {MODEL, SMALL_MODEL}
    for model, usage in result["modelUsage"].items():
        assert {name: total(rows, column, model) for name, column in USAGE_COLUMNS.items()} == {
            name: usage[name] for name in USAGE_COLUMNS
        }
        assert total(rows, "cost_cents", model) == pytest.approx(usage["costUSD"] * 100, rel=1e-12)


@needs_claude_code
def test_an_interrupted_session_costs_what_claude_code_says_and_the_stream_that_was_cut(
    live: Endpoint, tmp_path: Path
) -> None:
    """Both take the prompt of the stream from its start and estimate what it had written by then: Claude
    Code by three characters per token, so that the two differ by their estimates and nothing else."""
    first, words = Answer(content=[METER]), "The fare is 42 euros, all inclusive. " * 40 + "Bye."
    events = Answer(content=[text(words)]).events()
    gate, end = Gate(), len(events) - 4  # all the words have come, and no count of them
    live.upstream.enqueue(first.script(streamed=True), stream_of([*events[:end], gate]))
    options = (
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        *COMMANDS,
    )
    with claude_code(live, tmp_path, *options) as program:
        gate.wait_reached()
        program.wait_printed("Bye.")
        program.interrupt()
        _, output, _ = program.finish()
    # Claude Code may print messages of other kinds after it.
    messages = [json.loads(line) for line in output.splitlines()]
    (result,) = [message for message in messages if message["type"] == "result"]
    complete, cut = rows_in_order(live)
    assert (complete["usage_source"], cut["usage_source"]) == ("final", "estimated")
    assert cut["outcome"] == "client_disconnected"
    assert cut["session_id"] == complete["session_id"] == result["session_id"]
    # The characters per token come from the invented responses of other tests to the same service.
    assert len(words) / LARGEST_RATIO < cut["output_tokens"] < len(words) / LEAST_RATIO
    assert cut["estimated_cents"] == pytest.approx(cut["output_tokens"] * 20 / 10_000)
    assert cut["cost_cents"] == pytest.approx(Counts(output=0).cost_cents + cut["estimated_cents"])
    counted_cents = complete["cost_cents"] + Counts(output=0).cost_cents
    their_estimate_cents = result["total_cost_usd"] * 100 - counted_cents
    assert their_estimate_cents == pytest.approx(math.ceil(len(words) / 3) * 20 / 10_000)
