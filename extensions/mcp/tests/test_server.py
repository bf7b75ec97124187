"""The server as a client of the protocol meets it, and Claude Code that asks it."""

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from extensions.mcp import commands
from runtime.installing import command_for_extra
from tests.conversations.sessions import (
    MODEL as REQUEST_MODEL,
    conversation,
    request as make_request,
)
from tests.lazily import import_lazily
from tests.live.clients.claude_code import claude_code
from tests.live.clients.programs import needs_claude_code
from tests.live.messages import Answer, Counts, text, tool_use
from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.rawclient import request

mcp = import_lazily("mcp")
stdio = import_lazily("mcp.client.stdio")

QUESTION = "what did this session cost, and what broke its cache?"


def parameters(**environment: str) -> Any:
    return mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "manage.cli.main", "mcp"], env=environment
    )


async def ask(server: Any, tool: str, **arguments: Any) -> Any:
    """The result of a tool, by a client of the protocol's own library."""
    async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
        await session.initialize()
        return await session.call_tool(tool, arguments)


@pytest.mark.slow
async def test_six_tools_read_a_service_with_a_key(live: Endpoint) -> None:
    session_id = make_session(live)
    server = parameters(
        TAXIMETER_BASE_URL=f"http://{live.service.host}",
        TAXIMETER_API_KEY=live.service.create_key("agent"),
    )
    async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
        found = await session.initialize()
        assert "never an instruction" in str(found.instructions)
        tools = (await session.list_tools()).tools
        assert [each.name for each in tools] == [
            "spend", "sessions", "session", "call", "limits", "search",
        ]  # fmt: skip
        assert all(each.annotations and each.annotations.read_only_hint for each in tools)
        assert len(json.dumps([each.model_dump() for each in tools])) < 12_000
        result = await session.call_tool("session", {"session_id": session_id})
        document = json.loads(result.content[0].text)
        assert document["calls"] == 3
        failed = await session.call_tool("session", {"session_id": "none"})
        assert failed.is_error
        wrong = await session.call_tool("spend", {"by": "sql; drop table usage"})
        assert wrong.is_error


def test_without_its_library_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "extensions.mcp.server", raising=False)
    with pytest.raises(click.ClickException) as raised:
        commands._load_server()
    assert raised.value.format_message().endswith(command_for_extra("mcp"))


def make_session(live: Endpoint) -> str:
    """Make three calls, of which the last changes what the others wrote into the cache.

    Returns their session, of which no other test has one."""
    session = f"session-of-{live.slug}"
    log = "It sails. " * 1_000  # some 2,500 tokens
    for turns, nation, read in ((1, "British", 0), (2, "British", 3_000), (3, "American", 0)):
        counts = Counts(input=9, read=read, write_5m=3_000 + 400 * turns - read, write_1h=0)
        reply = Answer(content=[text("Done.")], counts=counts, model=REQUEST_MODEL)
        live.upstream.enqueue(reply.script(streamed=False))
        headers = (*REQUEST_HEADERS, ("x-claude-code-session-id", session))
        body = make_request(*conversation(turns, opening=f"{live.slug}: a {nation} ship. {log}"))
        path = f"/proxy/{live.slug}/v1/messages"
        sent = request("POST", path, headers, json.dumps(body).encode())
        assert live.service.send(sent).status == 200
    live.service.wait_for_rows(3, live.slug)
    return session


@needs_claude_code
def test_claude_code_asks_what_the_session_cost_and_what_broke_its_cache(
    live: Endpoint, tmp_path: Path
) -> None:
    session_id = make_session(live)
    server = {
        "command": sys.executable,
        "args": ["-m", "manage.cli.main", "mcp", "--data-dir", str(live.service.data_dir)],
        "env": {"PYTHONPATH": live.service.environment["PYTHONPATH"]},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"taximeter": server}}))
    asked = tool_use("mcp__taximeter__session", {"session_id": session_id})
    live.upstream.reset()
    turns = [Answer(content=[asked]), Answer(content=[text("It cost some cents.")])]
    live.upstream.enqueue(*(turn.script(streamed=True) for turn in turns))
    patient = {"MCP_TIMEOUT": "120000"}  # ms for the server to start
    with claude_code(
        live, tmp_path, "--mcp-config", str(config), "--strict-mcp-config",
        "--allowedTools", "mcp__taximeter__session", "--", QUESTION, variables=patient,
    ) as program:  # fmt: skip
        code, output, errors = program.finish()
    assert code == 0, (output, errors)
    answered = json.loads(live.upstream.requests[-1].body)["messages"]
    results = [
        block
        for message in answered
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    document = json.loads(results[0]["content"][0]["text"])
    assert document["cost_cents"] > 0
    broken = document["cache_breaks"][-1]
    assert broken["tokens"] > 0
    assert broken["extra_cost_cents"] > 0
    assert broken["cause"] in ("messages", "unknown")  # the upstream here counts nothing
