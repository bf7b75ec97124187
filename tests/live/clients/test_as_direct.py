"""Requests of Claude Code through an endpoint, beside those that it makes when it is direct.

The table of docs/clients.md is made of these lists. They are of the version in tests/live/node/package.json:
a newer one may bring others.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from manage.claude_code.variables import FIRST_PARTY
from tests.live.clients.checks import REPLY, base_url
from tests.live.clients.claude_code import claude_code
from tests.live.clients.direct import direct_network
from tests.live.clients.programs import needs_claude_code
from tests.live.messages import Answer, text, tool_use
from tests.live.service import Endpoint
from tests.upstream import SeenRequest, answer

METER = tool_use("Bash", {"command": "echo meter-$((40+2))"})
ASKED = ("--allowedTools", "Bash(echo:*)", "--", "go")
# Another value in each call, or in each session.
OF_A_CALL = {
    "x-claude-code-prev-tool-durations",
    "x-claude-code-prompt-id",
    "x-claude-code-session-id",
    "x-client-request-id",
}
OF_THE_HOP = {"connection"}
# The address that the client was given; the proxy sends that of its upstream.
OF_THE_TEST = {"host"}
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


def ask(endpoint: Endpoint, folder: Path, **variables: str) -> list[SeenRequest]:
    """Ask Claude Code for something that takes two calls; return what came to the upstream."""
    upstream = endpoint.upstream
    before = len(upstream.requests)
    # Without a proxy it also asks for settings and limits of an organisation.
    upstream.choose = lambda seen: (
        None if seen.target.startswith("/v1/messages") else answer(404, b"{}")
    )
    turns = [Answer(content=[text("Running."), METER]), REPLY]
    upstream.enqueue(*(turn.script(streamed=True) for turn in turns))
    with claude_code(endpoint, folder, *ASKED, variables=variables) as program:
        code, output, errors = program.finish()
    assert code == 0, (output, errors)
    seen = [each for each in upstream.requests[before:] if each.target.startswith("/v1/messages")]
    assert len(seen) == 2
    return seen


def ask_both(
    endpoint: Endpoint, folder: Path, variables: Mapping[str, str]
) -> Iterator[tuple[SeenRequest, SeenRequest]]:
    """Yield each request without a proxy, with the one through the endpoint."""
    with direct_network(endpoint.upstream, folder) as network:
        direct = ask(endpoint, folder, ANTHROPIC_BASE_URL="", **network)
    through = ask(endpoint, folder, ANTHROPIC_BASE_URL=base_url(endpoint), **variables)
    yield from zip(direct, through, strict=True)


def list_names(seen: SeenRequest) -> list[str]:
    skipped = OF_THE_HOP | OF_THE_TEST
    return [name.lower() for name, _ in seen.headers if name.lower() not in skipped]


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
def test_with_both_variables_a_call_is_what_it_is_without_a_proxy_but_for_one_beta(
    live: Endpoint, tmp_path: Path
) -> None:
    for direct, through in ask_both(live, tmp_path, FIRST_PARTY):
        assert list_names(through) == list_names(direct), "also in the same order"
        assert differing_headers(direct, through) == set()
        assert differing_betas(direct, through) == BETAS_NEVER_SENT
        assert differing_fields(direct, through) == {"system[0].text"}
        assert read_billing(through).keys() == read_billing(direct).keys()
    assert json.loads(through.body)["diagnostics"] == {"previous_message_id": REPLY.message_id}


@needs_claude_code
def test_without_them_a_call_has_less(live: Endpoint, tmp_path: Path) -> None:
    pairs = list(ask_both(live, tmp_path, {}))
    for direct, through in pairs:
        assert differing_headers(direct, through) == {"content-length", *HEADERS_OF_FIRST_PARTY}
        assert differing_betas(direct, through) == BETAS_NEVER_SENT | BETAS_OF_FIRST_PARTY
        missing = read_billing(direct).keys() - read_billing(through).keys()
        assert missing - {"cc_prev_req"} == BILLING_OF_FIRST_PARTY
        fields = differing_fields(direct, through)
        assert fields - {"diagnostics.previous_message_id"} == FIELDS_OF_FIRST_PARTY
    assert "diagnostics.previous_message_id" in fields, "from the second call on"
