"""The programs that a call's page offers make the same call, which is tried with the SDK itself."""

import inspect
import json
import warnings
from typing import Any

import pytest

from dashboard.replay import snippets
from dashboard.replay.snippets import (
    MAX_PASTED_BYTES,
    make_python,
    make_typescript,
    read_parts,
)
from tests.store.traffic import make_entry
from tests.upstream import Upstream, message_events, sse
from wire.json_reading import parse_object

REQUEST: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 300,
    "system": [{"type": "text", "text": "It's “brief”.\n", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "What?\u202e é \U0001f695"}],
    "temperature": 0.25,
    "metadata": {"user_id": None},
    "not_in_any_sdk": {"a": [1, 2.5, True, None]},
}
LONG = REQUEST | {"messages": [{"role": "user", "content": "word " * 2_000}]}


@pytest.fixture(scope="module")
def upstream():
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def run(upstream, tmp_path, monkeypatch):
    """Run the Python program for a call and return the request that it sends."""
    upstream.reset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")

    def run(request, vendor="anthropic", **fields):
        if request.get("stream"):
            upstream.enqueue(sse(message_events()))
        body = json.dumps(request).encode()
        (tmp_path / "call.json").write_bytes(body)
        short = body if len(body) <= MAX_PASTED_BYTES else None
        program = make_python(
            read_parts(upstream.url, vendor, make_entry(**fields), short, "call.json")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            exec(compile(program, "program", "exec"), {})  # noqa: S102 - that is what is tested
        (sent,) = upstream.requests
        return sent

    return run


@pytest.mark.parametrize("request_", [REQUEST, LONG], ids=["pasted", "from its file"])
@pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?beta=true"])
@pytest.mark.slow
def test_python_sends_the_same_request(run, request_, more, path):
    request = request_ | more
    sent = run(request, path_query=path, api_version="2023-06-01", betas="one-2025,two-2026")
    assert json.loads(bytes(sent.body)) == request
    assert sent.target == path
    assert ",".join(sent.header_values("anthropic-beta")).replace(" ", "") == "one-2025,two-2026"
    assert sent.header("anthropic-version") == "2023-06-01"
    assert "not-a-key" in (sent.header("x-api-key") or sent.header("authorization") or "")


@pytest.mark.slow
def test_python_sends_another_query_and_version_too(run):
    path = "/v1/messages?a=1&b=x%20y"
    sent = run(REQUEST, path_query=path, api_version="2024-01-01")
    assert sent.target in (path, path.replace("%20", "+"))
    assert sent.header("anthropic-version") == "2024-01-01"


@pytest.mark.slow
def test_python_sends_the_headers_of_another_vendor(run):
    sent = run(REQUEST, vendor="acme", path_query="/v1/messages", api_version="1", betas="b")
    assert (sent.header("acme-version"), sent.header("acme-beta")) == ("1", "b")


@pytest.mark.slow  # to import the SDK
def test_an_entry_from_before_paths_were_kept_gets_the_usual_one(run):
    assert run(REQUEST, path_query=None).target == "/v1/messages"


@pytest.mark.slow  # to import the SDK
def test_arguments_are_those_of_the_sdk():
    import anthropic

    create = inspect.signature(anthropic.Anthropic(api_key="x").messages.create).parameters
    assert create.keys() >= snippets._ARGUMENTS


@pytest.mark.parametrize(
    "body",
    [b"[1]", b'{"model": "x"}', b'{"__proto__": 1}', b'{"a":' * 300 + b"1" + b"}" * 300, b"\xff"],
)
def test_what_cannot_be_written_as_arguments_comes_from_the_file(body):
    entry = make_entry(path_query="/v1/messages")
    for make in (make_python, make_typescript):
        assert "call.json" in make(read_parts("http://x", "anthropic", entry, body, "call.json"))


def test_no_hidden_character_is_in_a_program():
    body = json.dumps(REQUEST, ensure_ascii=False).encode()
    entry = make_entry(path_query="/v1/messages", betas="\u202e\x1b[31m", api_version="\x00")
    for make in (make_python, make_typescript):
        program = make(read_parts("http://x", "anthropic", entry, body, "call.json"))
        assert not set(program) & set("\u202e\x1b\x00")


def test_typescript_has_the_request_as_an_object():
    body = json.dumps(REQUEST | {"stream": True}).encode()
    entry = make_entry(path_query="/v1/messages?beta=true", betas="one,two")
    program = make_typescript(read_parts("http://x/proxy/a", "anthropic", entry, body, "call.json"))
    written = program.partition("const body = ")[2].partition(";\nconst response")[0]
    assert parse_object(written.encode()) == REQUEST | {"stream": True}
    assert 'baseURL: "http://x/proxy/a"' in program
    assert '"query": {"beta": "true"}' in program
