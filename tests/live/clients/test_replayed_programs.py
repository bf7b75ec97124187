"""The program in TypeScript that a call's page offers, run by Node."""

import json
from pathlib import Path

import pytest

from dashboard.replay.snippets import make_typescript, read_parts
from tests.live.clients.programs import NODE_DIR, Program, needs_typescript_sdk
from tests.store.traffic import make_entry
from tests.upstream import Upstream, message_events, sse

REQUEST = {
    "model": "claude-x",
    "max_tokens": 300,
    "messages": [{"role": "user", "content": "What? é \U0001f695 \u2028 “quoted”"}],
    "not_in_any_sdk": {"a": [1, 2.5, True, None]},
}


@needs_typescript_sdk
@pytest.mark.parametrize(
    ("path", "more", "is_short"),
    [("/v1/messages?beta=true", {"stream": True}, True), ("/v1/messages", {}, False)],
    ids=["streamed and pasted", "whole and from its file"],
)
def test_typescript_sends_the_same_request(
    tmp_path: Path, path: str, more: dict[str, bool], is_short: bool
) -> None:
    body = json.dumps(REQUEST | more).encode()
    (tmp_path / "call.json").write_bytes(body)
    (tmp_path / "node_modules").symlink_to(NODE_DIR / "node_modules")
    entry = make_entry(path_query=path, api_version="2023-06-01", betas="one,two")
    with Upstream() as upstream:
        if more:
            upstream.enqueue(sse(message_events()))
        given = body if is_short else None
        program = make_typescript(read_parts(upstream.url, "anthropic", entry, given, "call.json"))
        (tmp_path / "program.mjs").write_text(program)
        environment = {"ANTHROPIC_API_KEY": "not-a-key"}
        with Program(["node", "program.mjs"], tmp_path, environment) as running:
            code, _, errors = running.finish()
        assert (code, errors) == (0, "")
        (sent,) = upstream.requests
    assert json.loads(bytes(sent.body)) == REQUEST | more
    assert sent.target == path
    assert sent.header("anthropic-beta") == "one,two"
