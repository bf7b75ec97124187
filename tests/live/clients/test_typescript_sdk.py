"""The TypeScript SDK: what callers get, and what entries say."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.live.clients.checks import (
    CALL,
    REPLY,
    assert_bodies,
    assert_entry,
    assert_is,
    base_url,
    either_way,
    result_of,
    rows_in_order,
)
from tests.live.clients.programs import NODE_DIR, Program, needs_typescript_sdk
from tests.live.messages import REQUEST_ID, error
from tests.live.service import API_KEY, Endpoint
from tests.rawclient import TIMEOUT_S
from tests.upstream import Gate

JS_PRODUCT = "Anthropic/JS"


class TypeScript:
    """A process of Node that has loaded the SDK once, and plays the scenarios of sdk.mjs."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def begin(self, endpoint: Endpoint, scenario: str) -> None:
        """Let a scenario begin at an endpoint."""
        told = {"baseURL": base_url(endpoint), "apiKey": API_KEY, "scenario": scenario}
        self._program.tell(json.dumps(told))

    def abort(self) -> None:
        """Let the scenario that goes on abort its stream."""
        self._program.tell("abort")

    def read(self) -> dict[str, Any]:
        """Return what the SDK gave to its caller in the scenario: a result, or an error."""
        report: dict[str, Any] = json.loads(self._program.wait_line())
        return report

    def play(self, endpoint: Endpoint, scenario: str) -> dict[str, Any]:
        """Return that of a scenario that ends by itself."""
        self.begin(endpoint, scenario)
        return self.read()

    def result(self, endpoint: Endpoint, scenario: str) -> Any:
        """Return the result of a scenario that goes well."""
        report = self.play(endpoint, scenario)
        assert "error" not in report, report
        return report["result"]


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypeScript]:
    command = ["node", str(NODE_DIR / "sdk.mjs")]
    variables = {"ANTHROPIC_CUSTOM_HEADERS": "x-taximeter-user: ann@example.com"}
    folder = tmp_path_factory.mktemp("node")
    with Program(command, folder, variables, has_input=True) as program:
        yield TypeScript(program)
        code, _, errors = program.finish()
    assert (code, errors) == (0, "")


@needs_typescript_sdk
@either_way
def test_typescript_an_answer_is_what_the_upstream_said(
    endpoint: Endpoint, typescript: TypeScript, streamed: bool
) -> None:
    endpoint.upstream.enqueue(REPLY.script(streamed=streamed, compressed=True))
    message = typescript.result(endpoint, "stream" if streamed else "create")
    assert_is(message, REPLY)
    row = endpoint.row()
    assert_entry(row, REPLY, streamed=streamed, client=JS_PRODUCT)
    assert row["attributed_user"] == "ann@example.com", "as lines of headers in the environment say"
    assert_bodies([row], endpoint.upstream.requests)


@needs_typescript_sdk
def test_typescript_a_large_request_that_is_refused_is_thrown_as_what_it_is(
    live: Endpoint, typescript: TypeScript
) -> None:
    error = typescript.play(replace(live, slug="nobody"), "createLarge")["error"]
    assert (error["class"], error["status"]) == ("NotFoundError", 404)


@needs_typescript_sdk
@either_way
def test_typescript_a_tool_is_called_and_its_result_answered(
    endpoint: Endpoint, typescript: TypeScript, streamed: bool
) -> None:
    turns = [CALL, REPLY]
    endpoint.upstream.enqueue(*(turn.script(streamed=streamed) for turn in turns))
    messages = typescript.result(endpoint, "toolsStreamed" if streamed else "toolsCreated")
    rows = rows_in_order(endpoint)
    for message, row, turn in zip(messages, rows, turns, strict=True):
        assert_is(message, turn)
        assert_entry(row, turn, streamed=streamed, client=JS_PRODUCT)
    _first, second = seen = endpoint.upstream.requests
    assert json.loads(second.body)["messages"][-1]["content"] == [result_of(CALL.content[-1])]
    assert_bodies(rows, seen)


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
    live: Endpoint, typescript: TypeScript, status: int, kind: str, name: str | None
) -> None:
    live.upstream.enqueue(error(status, kind, [("retry-after", "7")]))
    thrown = typescript.play(live, "stream")["error"]
    assert (thrown["status"], thrown["type"]) == (status, kind)
    assert (thrown["requestID"], thrown["retryAfter"]) == (REQUEST_ID, "7")
    assert name in (None, thrown["class"])
    row = live.row()
    assert (row["outcome"], row["error_type"]) == ("upstream_error", kind)


@needs_typescript_sdk
def test_typescript_an_aborted_stream_is_an_entry(
    endpoint: Endpoint, typescript: TypeScript
) -> None:
    gate = Gate()
    endpoint.upstream.enqueue(REPLY.held_after_text(gate))
    typescript.begin(endpoint, "abortWhenTold")
    gate.wait_reached()
    typescript.abort()
    thrown = typescript.read()["error"]
    assert thrown["class"] == "APIUserAbortError"
    assert endpoint.upstream.requests[0].abandoned.wait(TIMEOUT_S)
    assert endpoint.row()["outcome"] == "client_disconnected"
