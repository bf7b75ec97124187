"""The clients of the demo: they call proxy endpoints over HTTP, as an SDK and Claude Code do."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import httpx

from extensions.demo.blocks import Block, Failure, Message, Reply
from extensions.demo.upstream import DemoUpstream

TIMEOUT_S = 60.0
RETRY_PAUSE_S = 0.5
RETRIED_STATUSES = (408, 409, 429)  # and all from 500 on, as in the SDKs
VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoClient:
    """A client of one proxy endpoint. ``headers`` are sent with every call."""

    http: httpx.AsyncClient
    upstream: DemoUpstream
    url: str
    headers: Mapping[str, str]
    pace: float

    async def call(
        self,
        body: Mapping[str, Any],
        replies: Sequence[Reply],
        headers: Mapping[str, str],
        *,
        leave_after: int | None = None,
    ) -> None:
        """Make a call, and again while it fails and there are replies left. ``leave_after``: end the
        connection after so many events. Raises httpx.HTTPError where the service fails."""
        content = json.dumps(body, ensure_ascii=False).encode()
        self.upstream.expect(content, replies)
        for attempt, reply in enumerate(replies):
            retry = {"x-stainless-retry-count": str(attempt)}
            await self._send(content, {**self.headers, **headers, **retry}, leave_after)
            if not _is_retried(reply):
                return
            await asyncio.sleep(RETRY_PAUSE_S * self.pace)

    async def _send(
        self, content: bytes, headers: Mapping[str, str], leave_after: int | None
    ) -> None:
        fields = {
            "content-type": "application/json",
            "anthropic-version": VERSION,
            **headers,
        }
        async with self.http.stream("POST", self.url, content=content, headers=fields) as response:
            events = 0
            try:
                async for line in response.aiter_lines():
                    events += line.startswith("event:")
                    if leave_after is not None and events > leave_after:
                        return
            except httpx.RemoteProtocolError:
                return  # the upstream cut it, which is what the demo is to show


def _is_retried(reply: Reply) -> bool:
    return isinstance(reply, Failure) and (reply.status in RETRIED_STATUSES or reply.status >= 500)


@dataclass(slots=True, kw_only=True)
class Agent:
    """A conversation that grows with each turn, with cache markers where Claude Code puts them: at the
    end of the system prompt and of the last two user messages."""

    client: DemoClient
    model: str
    system: str
    tools: Sequence[Block]
    headers: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def turn(
        self,
        content: Sequence[Block],
        *replies: Reply,
        headers: Mapping[str, str] | None = None,
        leave_after: int | None = None,
    ) -> None:
        """Send the next user message. The last reply is what the conversation goes on with."""
        self.messages.append({"role": "user", "content": list(content)})
        await self.client.call(
            self._make_body(),
            replies,
            {**self.headers, **(headers or {})},
            leave_after=leave_after,
        )
        last = replies[-1]
        if isinstance(last, Message) and leave_after is None:
            self.messages.append({"role": "assistant", "content": list(last.content)})
        else:
            self.messages.pop()

    def _make_body(self) -> dict[str, Any]:
        messages = deepcopy(self.messages)
        for message in [each for each in messages if each["role"] == "user"][-2:]:
            _mark(message["content"][-1])
        system = {"type": "text", "text": self.system}
        _mark(system)
        return {
            "model": self.model,
            "max_tokens": 32_000,
            "stream": True,
            "system": [system],
            "tools": list(self.tools),
            "messages": messages,
            **({"metadata": dict(self.metadata)} if self.metadata else {}),
        }


def _mark(block: Block) -> None:
    block["cache_control"] = {"type": "ephemeral"}
