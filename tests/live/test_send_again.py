"""The command that a call's page offers makes the same call again."""

import shlex

from dashboard.replay.snippets import MAX_PASTED_BYTES, make_curl, read_parts
from store.traces.calls.call_reader import CallReader
from tests.live.service import API_KEY, Endpoint
from tests.rawclient import request

BODY = b'{"model":"claude-x","max_tokens":5,"messages":[{"role":"user","content":"it\'s"}]}'


def test_the_upstream_gets_the_same_path_headers_and_body_again(live: Endpoint) -> None:
    headers = [
        ("host", live.service.host),
        ("x-api-key", API_KEY),
        ("anthropic-version", "2026-10-21"),
        ("anthropic-beta", "oauth-2025-04-20"),
        ("anthropic-beta", "fine-grained-tool-streaming-2025-05-14"),
        ("content-type", "application/json"),
    ]
    live.send(request("POST", live.target("/v1/messages?beta=true"), headers, BODY))
    row = live.row()
    assert row["path_query"] == "/v1/messages?beta=true"
    assert row["api_version"] == "2026-10-21"
    assert row["betas"] == "oauth-2025-04-20,fine-grained-tool-streaming-2025-05-14"

    [path] = live.service.data_dir.glob("traces/*/traces.db")
    with CallReader.open(path) as reader:
        call = reader.find_call(row["id"])
        assert call is not None
        body = reader.read_body(row["id"], "request", MAX_PASTED_BYTES)
    url = f"http://{live.service.host}/proxy/{live.slug}"
    command = make_curl(read_parts(url, "anthropic", call.entry, body, "request.json"))
    words = shlex.split(command.replace("\\\n", "").replace("$ANTHROPIC_API_KEY", API_KEY))
    again = [tuple(word.split(": ", 1)) for word in words if ": " in word and word != words[-1]]
    target = words[1].removeprefix(f"http://{live.service.host}")
    live.send(
        request("POST", target, [("host", live.service.host), *again], words[-1].encode())  # type: ignore[list-item]
    )
    first, second = live.upstream.requests
    assert (second.target, bytes(second.body)) == (first.target, bytes(first.body))
    for name in ("x-api-key", "anthropic-version", "content-type"):
        assert second.header(name) == first.header(name)
    assert second.header("anthropic-beta") == ",".join(first.header_values("anthropic-beta"))
