"""The environment in which the clients run, and a session that several tests look at."""

import os

import pytest

from tests.live.clients.checks import REPLY
from tests.live.clients.claude_code import ToolSession, run_claude_code
from tests.live.conftest import make_new_endpoint
from tests.live.messages import Answer, text, thinking, tool_use
from tests.live.service import Service
from tests.upstream import Upstream

LINES_OF_HEADERS = (
    "x-taximeter-user:  ann@example.com  ",
    "",
    "no colon",
    "X-Taximeter-Project: acme/shop",
    "x-taximeter-tags: Env:Dev, caf\xe9, nightly",
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a developer has set up reaches the clients."""
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="package")
def tool_session(
    shared_service: Service, shared_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> ToolSession:
    """A session of Claude Code that runs a command and reads a file, for somebody whom its headers name."""
    home = tmp_path_factory.mktemp("tools")
    (home / "fare.txt").write_text("the fare is 4711\n")
    meter = tool_use("Bash", {"command": "echo meter-$((40+2))"})
    read = tool_use("Read", {"file_path": str(home / "fare.txt")}, block_id="toolu_02")
    said = (
        [thinking("Hm.", "c2ln"), text("Running."), meter],
        [read],
        REPLY.content,
    )
    turns = [
        Answer(content=content, message_id=f"msg_01Tools{number}")
        for number, content in enumerate(said)
    ]
    shared_upstream.reset()
    shared_upstream.enqueue(*(turn.script(streamed=True) for turn in turns))
    endpoint = make_new_endpoint(shared_service, shared_upstream, "live")
    result = run_claude_code(
        endpoint,
        home,
        *("--allowedTools", "Bash(echo:*)", "--", "say hi"),
        variables={"ANTHROPIC_CUSTOM_HEADERS": "\n".join(LINES_OF_HEADERS)},
    )
    assert shared_upstream.faults == []
    return ToolSession(
        endpoint=endpoint,
        home=home,
        turns=turns,
        seen=list(shared_upstream.requests),
        result=result,
    )
