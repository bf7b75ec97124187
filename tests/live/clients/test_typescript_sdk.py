"""The TypeScript SDK: what callers get, and what entries say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients.checks import (
    CALL,
    REPLY,
    SOON,
    TARGET,
    assert_bodies,
    assert_entry,
    assert_is,
    assert_left_early,
    base_url,
    either_way,
    result_of,
    rows_in_order,
)
from tests.live.clients.programs import NODE_DIR, Program, needs_typescript_sdk
from tests.live.messages import REQUEST_ID, error, token_count
from tests.live.service import API_KEY, Endpoint
from tests.rawclient import TIMEOUT_S
from tests.upstream import Gate

JS_PRODUCT = "Anthropic/JS"


def typescript(endpoint: Endpoint, folder: Path, scenario: str) -> Program:
    script = str(NODE_DIR / "sdk.mjs")
    command = ["node", script, base_url(endpoint), API_KEY, scenario]
    return Program(command, folder, {}, has_input=True)


def report_of(program: Program) -> dict[str, Any]:
    code, output, errors = program.finish()
    assert (code, errors) == (0, "")
    report: dict[str, Any] = json.loads(output)
    return report


def run_typescript(endpoint: Endpoint, folder: Path, scenario: str) -> Any:
    """Return what the SDK gave to its caller in this scenario of sdk.mjs."""
    with typescript(endpoint, folder, scenario) as program:
        report = report_of(program)
    assert "error" not in report, report
    return report["result"]


@needs_typescript_sdk
@either_way
def test_typescript_an_answer_is_what_the_upstream_said(
    endpoint: Endpoint, tmp_path: Path, streamed: bool
) -> None:
    endpoint.upstream.enqueue(REPLY.script(streamed=streamed, compressed=True))
    message = run_typescript(endpoint, tmp_path, "stream" if streamed else "create")
    assert_is(message, REPLY)
    row = endpoint.row()
    assert_entry(row, REPLY, streamed=streamed, client=JS_PRODUCT)
    assert_bodies([row], endpoint.upstream.requests)


@needs_typescript_sdk
def test_typescript_a_large_request_that_is_refused_is_thrown_as_what_it_is(
    live: Endpoint, tmp_path: Path
) -> None:
    with typescript(replace(live, slug="nobody"), tmp_path, "createLarge") as program:
        error = report_of(program)["error"]
    assert (error["class"], error["status"]) == ("NotFoundError", 404)


@needs_typescript_sdk
def test_typescript_a_stream_gives_its_texts_one_by_one(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.upstream.enqueue(REPLY.script(streamed=True))
    result = run_typescript(endpoint, tmp_path, "streamTexts")
    assert len(result["texts"]) > 1
    assert "".join(result["texts"]) == REPLY.text
    assert_is(result["message"], REPLY)
    assert_entry(endpoint.row(), REPLY, streamed=True, client=JS_PRODUCT)


@needs_typescript_sdk
@either_way
def test_typescript_a_tool_is_called_and_its_result_answered(
    endpoint: Endpoint, tmp_path: Path, streamed: bool
) -> None:
    turns = [CALL, REPLY]
    endpoint.upstream.enqueue(*(turn.script(streamed=streamed) for turn in turns))
    messages = run_typescript(endpoint, tmp_path, "toolsStreamed" if streamed else "toolsCreated")
    rows = rows_in_order(endpoint)
    for message, row, turn in zip(messages, rows, turns, strict=True):
        assert_is(message, turn)
        assert_entry(row, turn, streamed=streamed, client=JS_PRODUCT)
    _first, second = seen = endpoint.upstream.requests
    assert json.loads(second.body)["messages"][-1]["content"] == [result_of(CALL.content[-1])]
    assert_bodies(rows, seen)


@needs_typescript_sdk
def test_typescript_counting_tokens_is_no_entry(live: Endpoint, tmp_path: Path) -> None:
    live.upstream.enqueue(token_count(2095))
    assert run_typescript(live, tmp_path, "countTokens") == {"input_tokens": 2095}
    assert [seen.target for seen in live.upstream.requests] == [f"{TARGET}/count_tokens"]
    assert live.rows() == []


@needs_typescript_sdk
def test_typescript_a_beta_call_keeps_its_query(live: Endpoint, tmp_path: Path) -> None:
    live.upstream.enqueue(REPLY.script(streamed=False))
    assert_is(run_typescript(live, tmp_path, "beta"), REPLY)
    [seen] = live.upstream.requests
    assert seen.target == f"{TARGET}?beta=true"
    assert seen.header("anthropic-beta") == "context-management-2025-06-27"
    assert_entry(live.row(), REPLY, streamed=False, client=JS_PRODUCT)


@needs_typescript_sdk
@pytest.mark.parametrize(
    ("status", "kind", "name"),
    [
        (401, "authentication_error", "AuthenticationError"),
        (429, "rate_limit_error", "RateLimitError"),
        (529, "overloaded_error", None),
    ],
)
def test_typescript_an_error_is_thrown_as_what_it_is(
    live: Endpoint, tmp_path: Path, status: int, kind: str, name: str | None
) -> None:
    live.upstream.enqueue(error(status, kind, [("retry-after", "7")]))
    with typescript(live, tmp_path, "stream") as program:
        thrown = report_of(program)["error"]
    assert (thrown["status"], thrown["type"]) == (status, kind)
    assert (thrown["requestID"], thrown["retryAfter"]) == (REQUEST_ID, "7")
    assert name in (None, thrown["class"])
    row = live.row()
    assert (row["outcome"], row["error_type"]) == ("upstream_error", kind)


@needs_typescript_sdk
@either_way
def test_typescript_each_retry_is_an_entry(live: Endpoint, tmp_path: Path, streamed: bool) -> None:
    live.upstream.enqueue(
        error(529, "overloaded_error", [SOON]),
        error(429, "rate_limit_error", [SOON]),
        REPLY.script(streamed=streamed),
    )
    assert_is(run_typescript(live, tmp_path, "retryStream" if streamed else "retry"), REPLY)
    rows = rows_in_order(live)
    assert [(row["retry_count"], row["status_code"]) for row in rows] == [
        (0, 529),
        (1, 429),
        (2, 200),
    ]


@needs_typescript_sdk
def test_typescript_a_stream_that_is_left_early_is_an_entry(live: Endpoint, tmp_path: Path) -> None:
    live.upstream.enqueue(REPLY.held_after_text(Gate()))
    [first] = run_typescript(live, tmp_path, "leaveAtFirstText")
    assert REPLY.text.startswith(first)
    assert live.upstream.requests[0].abandoned.wait(TIMEOUT_S)
    assert_left_early(live.row())


@needs_typescript_sdk
def test_typescript_an_aborted_stream_is_an_entry(endpoint: Endpoint, tmp_path: Path) -> None:
    gate = Gate()
    endpoint.upstream.enqueue(REPLY.held_after_text(gate))
    with typescript(endpoint, tmp_path, "abortWhenTold") as program:
        gate.wait_reached()
        thrown = report_of(program)["error"]
    assert thrown["class"] == "APIUserAbortError"
    assert endpoint.upstream.requests[0].abandoned.wait(TIMEOUT_S)
    assert endpoint.row()["outcome"] == "client_disconnected"
