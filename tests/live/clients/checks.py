"""The questions and answers of the tests of clients, and the checks of what came of them."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from store.traces.calls.threads import WholeRequest, read_whole_request
from tests.live.messages import (
    MODEL,
    REQUEST_ID,
    Answer,
    Block,
    Counts,
    stream_of,
    text,
    thinking,
    tool_use,
)
from tests.live.service import Endpoint, Row, body_bytes
from tests.upstream import CLOSE, Script, SeenRequest

TARGET = "/v1/messages"
QUESTION: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 1024,
    "messages": [{"role": "user", "content": "What is the fare to “Châtelet”? 🚕"}],
}
TOOLS: list[Block] = [
    {
        "name": "get_fare",
        "description": "The fare to a place.",
        "input_schema": {
            "type": "object",
            "properties": {"to": {"type": "string"}},
            "required": ["to"],
        },
    }
]
THOUGHT = thinking("A station in Paris; a fare is asked for.", "EqoBCkgIARABGAIiQL8=")
REPLY = Answer(content=[THOUGHT, text("It is 12 €, “all inclusive” — 祝你好运 \u2028 🚕.")])
CUT = Script((*stream_of(REPLY.events()[:9]).steps[:-1], CLOSE))
"""REPLY as a stream that ends in its middle."""
CALL = Answer(
    content=[
        THOUGHT,
        text("Let me look."),
        tool_use("get_fare", {"to": "Châtelet", "via": [{"stop": "“Nord”\n"}], "luggage": 2}),
    ],
    counts=Counts(input=640, output=88, read=0, write_5m=4096, write_1h=0),
    message_id="msg_02Taximeter",
)


def base_url(endpoint: Endpoint) -> str:
    return f"http://{endpoint.service.host}{endpoint.target('')}"


def assert_is(message: dict[str, Any], reply: Answer) -> None:
    """The caller was given exactly what the upstream said."""
    assert message["content"] == list(reply.content)
    assert (message["id"], message["model"]) == (reply.message_id, MODEL)
    assert message["stop_reason"] == reply.stop_reason
    assert {name: message["usage"][name] for name in reply.counts.columns} == reply.counts.columns


def assert_entry(row: Row, reply: Answer, *, streamed: bool, client: str) -> None:
    """The entry says what the answer said, what it cost and whose it was."""
    assert {name: row[name] for name in reply.counts.columns} == reply.counts.columns
    assert row["cost_cents"] == pytest.approx(reply.counts.cost_cents)
    assert (row["model"], row["request_model"]) == (MODEL, MODEL)
    assert (row["status_code"], row["outcome"]) == (200, "complete")
    assert (row["usage_source"], bool(row["streamed"])) == ("final", streamed)
    assert row["client"].startswith(client)
    assert row["upstream_request_id"] == REQUEST_ID
    assert row["service_tier"] == "standard"
    assert row["credential_hmac"]
    assert row["duration_ms"] >= row["ttfb_ms"] > 0


def assert_bodies(rows: list[Row], seen: list[SeenRequest]) -> None:
    """Each entry holds the request that the upstream got."""
    assert [body_bytes(row["request_body"]) for row in rows] == [bytes(r.body) for r in seen]


def rows_in_order(endpoint: Endpoint) -> list[Row]:
    """The entries by the arrival of their requests."""
    return sorted(endpoint.rows(), key=lambda row: row["created_at"])


def read_whole(endpoint: Endpoint, row: Row) -> WholeRequest:
    """Return the request of an entry with all that the model was given."""
    [path] = endpoint.service.data_dir.glob("traces/*/traces.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        whole = read_whole_request(connection, row["id"])
    assert whole is not None
    assert whole.gap is None
    return whole


either_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
"""Runs a test twice, with `create` and with `stream`."""


def result_of(call: Block) -> Block:
    return {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": f"12 € to {call['input']['to']}",
    }


SOON = ("retry-after-ms", "1")


def assert_left_early(row: Row) -> None:
    """The entry of a stream whose client went away after the first text."""
    assert (row["status_code"], row["outcome"]) == (200, "client_disconnected")
    assert (row["usage_source"], row["model"]) == ("estimated", MODEL)
    assert row["input_tokens"] == REPLY.counts.input
    assert 0 < row["estimated_cents"] < row["cost_cents"]
