"""Requests of Claude Code without a proxy, by ``taximeter run``, and by its forward proxy.

The table of docs/clients.md is made of these lists. They are of the version in tests/live/node/package.json:
a newer one may bring others. Here the vendor's host is one that only the proxy of a company knows, through
which client and service come to it; so the client without a proxy of ours does TLS with the upstream itself.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients.checks import REPLY
from tests.live.clients.programs import CLAUDE, needs_claude_code
from tests.live.command import TAXIMETER
from tests.live.messages import MODEL, Answer, text, tool_use
from tests.live.noon import find_noon_zone
from tests.live.office import Office
from tests.live.service import API_KEY
from tests.upstream import PATIENCE_S, SeenRequest, Upstream, answer

METER = tool_use("Bash", {"command": "echo meter-$((40+2))"})
ASKED = ("-p", "--model", MODEL, "--allowedTools", "Bash(echo:*)", "--", "go")
# Another value in each call, or in each session.
OF_A_CALL = {
    "x-claude-code-prev-tool-durations",
    "x-claude-code-prompt-id",
    "x-claude-code-session-id",
    "x-client-request-id",
}
OF_THE_HOP = {"connection"}
BETA = "anthropic-beta"
BILLING = "x-anthropic-billing-header"
BETAS_NEVER_SENT = {"mid-conversation-system-clear-at-2026-08-21"}
BETAS_OF_FIRST_PARTY = {
    "cache-diagnosis-2026-04-07",
    "prompt-caching-scope-2026-01-05",
    "thinking-binding-controls-2026-08-01",
}
HEADERS_OF_FIRST_PARTY = {"x-claude-code-sandy-plover", "x-client-request-id"}
FIELDS_OF_FIRST_PARTY = {
    "system[0].text",  # fewer parts of the attribution block: see BILLING_OF_FIRST_PARTY
    "system[1].cache_control.type",
    "system[2].cache_control.scope",
    "system[2].text",  # with the third and fourth block in one
    "system[3].cache_control.type",
    "system[3].text",
    "system[3].type",
}
BILLING_OF_FIRST_PARTY = {
    "cch",
    "cc_prompt_id",
    "cc_turn_origin",
    "cc_prompt_index",
    "cc_turn_index",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine with Claude Code and a service that forwards to the vendor. ``session`` is the one folder
    that all sessions are in, since a prompt names it."""

    upstream: Upstream
    environ: dict[str, str]
    session: Path

    def ask(self, *through: str) -> list[SeenRequest]:
        """Ask for something that takes two calls; return what came to the upstream."""
        self.upstream.reset()
        # Without a proxy it also asks for settings and limits of an organisation.
        self.upstream.choose = lambda seen: None if is_call(seen) else answer(404, b"{}")
        turns = [Answer(content=[text("Running."), METER]), REPLY]
        self.upstream.enqueue(*(turn.script(streamed=True) for turn in turns))
        done = subprocess.run(  # noqa: S603 - the commands are ours
            [*through, str(CLAUDE), *ASKED],
            cwd=self.session,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout.strip()) == (0, REPLY.text), done.stderr
        seen = [each for each in self.upstream.requests if is_call(each)]
        assert len(seen) == 2
        return seen

    def run(self, *options: str) -> list[SeenRequest]:
        return self.ask(str(TAXIMETER), "run", *options, "--")


def is_call(seen: SeenRequest) -> bool:
    return seen.target.startswith("/v1/messages")


@pytest.fixture(scope="module")
def machine(office: Office, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    session = tmp_path_factory.mktemp("session")
    environ = office.environ | {
        "ANTHROPIC_API_KEY": API_KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NODE_EXTRA_CA_CERTS": office.authority_path,
        "HOME": str(session),
        "TMPDIR": str(session),
        "TZ": find_noon_zone(),  # a prompt names the day
    }
    return Machine(upstream=office.upstream, environ=environ, session=session)


@pytest.fixture(scope="module")
def direct(machine: Machine) -> list[SeenRequest]:
    """The calls without a proxy of ours."""
    return machine.ask()


def list_names(seen: SeenRequest) -> list[str]:
    return [name.lower() for name, _ in seen.headers if name.lower() not in OF_THE_HOP]


def differing_headers(direct: SeenRequest, through: SeenRequest) -> set[str]:
    """Return the headers that are missing, added or another, but betas and those of each call."""
    names = {*list_names(direct), *list_names(through)} - {BETA}
    return {
        name
        for name in names
        if (name in OF_A_CALL and (direct.header(name) is None) != (through.header(name) is None))
        or (name not in OF_A_CALL and direct.header_values(name) != through.header_values(name))
    }


def differing_betas(direct: SeenRequest, through: SeenRequest) -> set[str]:
    return read_betas(direct) ^ read_betas(through)


def read_betas(seen: SeenRequest) -> set[str]:
    return set((seen.header(BETA) or "").split(","))


def read_billing(seen: SeenRequest) -> dict[str, str]:
    """Return the parts of the attribution block, the first of the system prompt."""
    name, _, parts = json.loads(seen.body)["system"][0]["text"].partition(": ")
    assert name == BILLING
    return dict(part.strip().split("=", 1) for part in parts.split(";") if part.strip())


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from flatten(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from flatten(each, f"{path}[{index}]")
    else:
        yield path, value


def differing_fields(direct: SeenRequest, through: SeenRequest) -> set[str]:
    """Return the fields of the bodies that are missing, added or another, but ids of the session."""
    one, other = (dict(flatten(json.loads(each.body))) for each in (direct, through))
    ids = "metadata.user_id"
    assert json.loads(str(one.pop(ids))).keys() == json.loads(str(other.pop(ids))).keys()
    return {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}


@needs_claude_code
def test_a_call_of_a_run_is_what_it_is_without_a_proxy_but_for_one_beta(
    machine: Machine, direct: list[SeenRequest]
) -> None:
    through = machine.run()
    for one, other in zip(direct, through, strict=True):
        assert list_names(other) == list_names(one), "also in the same order"
        assert differing_headers(one, other) == set()
        assert differing_betas(one, other) == BETAS_NEVER_SENT
        assert differing_fields(one, other) == {"system[0].text"}
        assert read_billing(other).keys() == read_billing(one).keys()
    assert json.loads(through[1].body)["diagnostics"] == {"previous_message_id": REPLY.message_id}


@needs_claude_code
def test_a_call_through_the_forward_proxy_is_what_it_is_without_one(
    machine: Machine, direct: list[SeenRequest]
) -> None:
    for one, other in zip(direct, machine.run("--forward-proxy"), strict=True):
        assert [name for name, _ in other.headers] == [name for name, _ in one.headers]
        assert differing_headers(one, other) == set()
        assert differing_betas(one, other) == set()
        assert differing_fields(one, other) == {"system[0].text"}
        assert read_billing(other).keys() == read_billing(one).keys()


@needs_claude_code
def test_without_the_variables_a_call_has_less(machine: Machine, direct: list[SeenRequest]) -> None:
    for one, other in zip(direct, machine.run("--no-first-party"), strict=True):
        assert differing_headers(one, other) == {"content-length", *HEADERS_OF_FIRST_PARTY}
        assert differing_betas(one, other) == BETAS_NEVER_SENT | BETAS_OF_FIRST_PARTY
        missing = read_billing(one).keys() - read_billing(other).keys()
        assert missing - {"cc_prev_req"} == BILLING_OF_FIRST_PARTY
        fields = differing_fields(one, other)
        assert fields - {"diagnostics.previous_message_id"} == FIELDS_OF_FIRST_PARTY
    assert "diagnostics.previous_message_id" in fields, "from the second call on"
