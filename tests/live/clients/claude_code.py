"""Running Claude Code against an endpoint."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.clients.checks import base_url
from tests.live.clients.programs import CLAUDE, Program
from tests.live.messages import MODEL, Answer
from tests.live.noon import find_noon_zone
from tests.live.service import API_KEY, Endpoint
from tests.upstream import SeenRequest

THREADS = "CLAUDE_CODE_TETHER_LIVE"
"""Switches message threads on, which otherwise a flag does that the vendor's service sets."""


def claude_code(
    endpoint: Endpoint,
    folder: Path,
    *arguments: str,
    has_threads: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Program:
    """Claude Code in a home of its own, asked once and without a terminal."""
    options = {
        "ANTHROPIC_BASE_URL": base_url(endpoint),
        "ANTHROPIC_API_KEY": API_KEY,
        "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
        "TMPDIR": str(folder),
        "TZ": find_noon_zone(),  # a prompt names the day
        THREADS: str(int(has_threads)),
        **dict.fromkeys(
            (
                "DISABLE_TELEMETRY",
                "DISABLE_ERROR_REPORTING",
                "DISABLE_AUTOUPDATER",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            ),
            "1",
        ),
        **(variables or {}),
    }
    command = [str(CLAUDE), "-p", "--model", MODEL, "--output-format", "json", *arguments]
    return Program(command, folder, options)


def run_claude_code(
    endpoint: Endpoint,
    folder: Path,
    *arguments: str,
    has_threads: bool = False,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The result that Claude Code printed."""
    with claude_code(
        endpoint, folder, *arguments, has_threads=has_threads, variables=variables
    ) as program:
        code, output, errors = program.finish()
    assert code == 0, (output, errors)
    result: dict[str, Any] = json.loads(output)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSession:
    """A session that has called two tools: what its model said, what the upstream saw, what was printed."""

    endpoint: Endpoint
    home: Path
    turns: Sequence[Answer]
    seen: list[SeenRequest]
    result: dict[str, Any]
