"""The calls of today: programs that call their endpoints over HTTP at the same time, as an SDK does."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx

from extensions.demo.calls import Call, Table
from extensions.demo.library import read_table
from extensions.demo.script import Player, Step
from extensions.demo.upstream import DemoUpstream

TIMEOUT_S = 60.0
RETRY_PAUSE_S = 0.5
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Makes calls through the proxy. ``pace`` multiplies the pauses before retries."""

    http: httpx.AsyncClient
    upstream: DemoUpstream
    endpoint_url: Callable[[str], str]
    pace: float

    async def make_all(self, steps: Iterable[Step]) -> None:
        """Make the calls of a conversation. Raises httpx.HTTPError."""
        for step in steps:
            if isinstance(step, Call):
                await self._make(step)
            else:
                await asyncio.gather(*map(self.make_all, step))

    async def _make(self, call: Call) -> None:
        """Send a call, once for each of its replies."""
        url = self.endpoint_url(call.program.endpoint) + call.target
        self.upstream.expect(call)
        for attempt in range(len(call.replies)):
            await asyncio.sleep(RETRY_PAUSE_S * self.pace if attempt else 0)
            request = self.http.stream(
                "POST", url, content=call.content, headers=call.headers_of(attempt)
            )
            async with request as response:
                await _read(response, call.leave_after)


async def make_calls(
    upstream: DemoUpstream, endpoint_url: Callable[[str], str], pace: float
) -> None:
    """Make the calls of all conversations. Raises httpx.HTTPError."""
    player = Player(SEED)

    def play(line: Iterable[str | Table]) -> Iterable[Step]:
        for each in line:
            named = {"conversation": each} if isinstance(each, str) else each
            yield from player.play(**named)

    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http:
        caller = Caller(http=http, upstream=upstream, endpoint_url=endpoint_url, pace=pace)
        lines = read_table("organization")["today"]["lines"]
        await asyncio.gather(*(caller.make_all(play(line)) for line in lines))


async def _read(response: httpx.Response, leave_after: int | None) -> None:
    """Read a response to its end, or only ``leave_after`` events of it."""
    events = 0
    try:
        async for line in response.aiter_lines():
            events += line.startswith("event:")
            if leave_after is not None and events > leave_after:
                return
    except httpx.RemoteProtocolError:
        return  # the upstream cut it, which is what the demo is to show
