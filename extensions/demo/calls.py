"""A call of the demo: the program that makes it, its request, and the replies of the upstream."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

type Block = dict[str, Any]
type Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that makes calls. An agent sends a session id, and cache markers in its prompt."""

    endpoint: str
    headers: Mapping[str, str]
    query: str = ""
    is_agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply of the upstream, an error if it has an ``error_type``.

    ``cut_after`` ends a stream after that share of its events, as a failing upstream does; after the
    share ``hold_after`` it pauses until the client leaves. ``refusal`` is the category in which the
    model declined."""

    content: Sequence[Block] = ()
    refusal: str | None = None
    cut_after: float | None = None
    hold_after: float | None = None
    status: int = 200
    error_type: str | None = None
    message: str | None = None

    @property
    def stop_reason(self) -> str:
        if self.refusal:
            return "refusal"
        is_tool_call = any(block["type"] == "tool_use" for block in self.content)
        return "tool_use" if is_tool_call else "end_turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, sent once for each of ``replies``.

    After ``leave_after`` events the client closes the connection. ``pause_s`` is the idle time before
    the call, in seconds."""

    program: Program
    headers: Mapping[str, str]
    body: Table
    replies: Sequence[Reply]
    leave_after: int | None = None
    pause_s: float = 0.0

    @property
    def content(self) -> bytes:
        """Return the body of the request as bytes."""
        return json.dumps(self.body, ensure_ascii=False).encode()

    @property
    def target(self) -> str:
        """Return the path below the slug of the endpoint, with its query."""
        return f"/v1/messages{self.program.query}"

    def headers_of(self, attempt: int) -> dict[str, str]:
        """Return the headers of an attempt; the first attempt is 0."""
        return {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            **self.program.headers,
            **self.headers,
            "x-stainless-retry-count": str(attempt),
        }
