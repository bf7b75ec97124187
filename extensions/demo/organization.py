"""The example organisation: a neighbourhood library, its endpoints, its people, and its calls."""

import asyncio
from collections.abc import Callable

import httpx

from extensions.demo import coding, desk
from extensions.demo.client import TIMEOUT_S, DemoClient
from extensions.demo.upstream import DemoUpstream
from store.control.management import Management
from store.control.users import Users

CLAUDE_CODE, DESK, REPORT, LETTERS = "claude-code", "desk", "nightly-report", "letters"
ENDPOINTS = (
    ("Letters (no text is kept)", LETTERS, True),
    ("Nightly report", REPORT, False),
    ("Desk", DESK, False),
    ("Claude Code", CLAUDE_CODE, False),
)
COLLEAGUE, INVITED = "tomas@library.example", "aline@library.example"
KEY_NAME = "monthly bill"

_CLI_HEADERS = {
    "user-agent": "claude-cli/2.1.329 (external, cli)",
    "x-app": "cli",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
}
_SUBSCRIPTION = "Bearer sk-ant-oat01-demo-of-tomas"
_SDK_HEADERS = {"user-agent": "Anthropic/Python 2.11.0", "x-stainless-lang": "python"}


def set_up(management: Management, users: Users) -> None:
    """Create endpoints, people and a key beside what a first start has made. Raises ControlError."""
    caller = management.local_caller()
    for name, slug, metadata_only in ENDPOINTS:
        management.create_endpoint(caller, name, slug, None, metadata_only=metadata_only)
    users.create(COLLEAGUE, join=caller.organization_id)
    management.invite(caller, INVITED)
    management.create_key(caller, KEY_NAME)


async def make_calls(
    upstream: DemoUpstream, endpoint_url: Callable[[str], str], pace: float
) -> None:
    """Make the calls of everybody, at the same time as people do. Raises httpx.HTTPError."""
    timeout = httpx.Timeout(TIMEOUT_S)
    async with httpx.AsyncClient(timeout=timeout, trust_env=False) as http:

        def client(slug: str, query: str, credential: str, **headers: str) -> DemoClient:
            name = "authorization" if credential.startswith("Bearer ") else "x-api-key"
            return DemoClient(
                http=http,
                upstream=upstream,
                url=f"{endpoint_url(slug)}/v1/messages{query}",
                headers={name: credential, **headers},
                pace=pace,
            )

        await asyncio.gather(
            coding.play(client(CLAUDE_CODE, "?beta=true", "demo-of-ines", **_CLI_HEADERS)),
            desk.explain_loans(client(CLAUDE_CODE, "?beta=true", _SUBSCRIPTION, **_CLI_HEADERS)),
            desk.answer_questions(client(DESK, "", "demo-of-the-desk", **_SDK_HEADERS)),
            desk.write_report(client(REPORT, "", "demo-of-the-report", **_SDK_HEADERS)),
            desk.write_letters(client(LETTERS, "", "demo-of-the-desk", **_SDK_HEADERS)),
        )
