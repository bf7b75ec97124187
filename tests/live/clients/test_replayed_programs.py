"""The program in TypeScript that a call's page offers, run by Node."""

import json
from pathlib import Path

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


CASES = {
    "streamed": ("/v1/messages?beta=true", {"stream": True}, True),
    "whole": ("/v1/messages", {}, False),
}
"""The path of each program, what its request has besides, and whether that is pasted or from its file."""


@needs_typescript_sdk
def test_typescript_sends_the_same_request(tmp_path: Path) -> None:
    """One process runs both programs, for most of its time goes to loading the SDK."""
    (tmp_path / "node_modules").symlink_to(NODE_DIR / "node_modules")
    with Upstream() as upstream:
        upstream.choose = lambda seen: sse(message_events()) if "?" in seen.target else None
        for name, (path, more, is_pasted) in CASES.items():
            body = json.dumps(REQUEST | more).encode()
            (tmp_path / f"{name}.json").write_bytes(body)
            entry = make_entry(path_query=path, api_version="2023-06-01", betas="one,two")
            given = body if is_pasted else None
            parts = read_parts(upstream.url, "anthropic", entry, given, f"{name}.json")
            (tmp_path / f"{name}.mjs").write_text(make_typescript(parts))
        (tmp_path / "all.mjs").write_text("".join(f"import './{name}.mjs';\n" for name in CASES))
        with Program(["node", "all.mjs"], tmp_path, {"ANTHROPIC_API_KEY": "not-a-key"}) as running:
            code, _, errors = running.finish()
        assert (code, errors) == (0, "")
        sent = sorted(upstream.requests, key=lambda seen: len(seen.target), reverse=True)
    for seen, (path, more, _) in zip(sent, CASES.values(), strict=True):
        assert json.loads(bytes(seen.body)) == REQUEST | more
        assert seen.target == path
        assert seen.header("anthropic-beta") == "one,two"
