"""Moving windows over all nodes: a limit on admissions in any minute, by the clock of the server.

A window is a list of the instants of its last admissions, newest first, as many as its limit. A
request is admitted if there are fewer, or if the oldest is more than a minute ago. The script runs
atomically on the server, so two nodes never use the same place. If the clock is set back by more than
a minute, the window starts again; if by less, nobody waits longer than a minute at a time.

Admissions that nodes made alone while the server was away are inserted by their ages.

A connection that turns out to be closed says nothing about the server: after a restart or a failover
all open connections are closed. So a request on such a connection is sent once more on a new one. If
the server had counted it already, it is counted twice: so a limit may refuse a request too early, but
never admits too many."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import redis

from extensions.cluster import keys, server

WINDOW_US = 60_000_000
# A connection that is closed, or that leads to a server which is a replica now, and what asyncio raises on
# one that has just been closed.
_CLOSED = (redis.ConnectionError, redis.ReadOnlyError, OSError, RuntimeError)
_ADMIT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local oldest = tonumber(redis.call('LINDEX', KEYS[1], limit - 1) or '')
if oldest then
  local age = now - oldest
  if age < window and age > -window then
    return math.min(window - age, window)
  end
end
redis.call('LPUSH', KEYS[1], string.format('%d', now))
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('PEXPIRE', KEYS[1], window / 1000)
return 0
"""
# With the commands of the other script alone, so that the server's user needs no more rights. What was there
# is cut off last: a server that is full refuses to push.
_NOTE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local instants = {}
for place = 0, limit - 1 do
  local instant = tonumber(redis.call('LINDEX', KEYS[1], place) or '')
  if not instant then break end
  table.insert(instants, instant)
end
for number = 3, #ARGV do
  table.insert(instants, now - tonumber(ARGV[number]))
end
table.sort(instants)
local first = math.max(1, #instants - limit + 1)
for number = first, #instants do
  redis.call('LPUSH', KEYS[1], string.format('%d', instants[number]))
end
redis.call('LTRIM', KEYS[1], 0, #instants - first)
redis.call('PEXPIRE', KEYS[1], window / 1000)
return #instants
"""


class ClusterWindows:
    """The windows on the server, as used by one process."""

    def __init__(self, url: str) -> None:
        """Use the server at ``url``. Raises ValueError."""
        self._url = url
        self._client = server.connect_async(url)
        self._admit = self._client.register_script(_ADMIT)
        self._note = self._client.register_script(_NOTE)
        self._closing: set[asyncio.Task[None]] = set()

    async def admit(self, name: str, limit: int) -> float:
        """Count a request if it is admitted. Return 0 if so, else the seconds until one is admitted.

        Raises redis.RedisError, TimeoutError if the server does not respond in time, and what asyncio
        raises on a connection that has just been closed."""

        async def ask() -> int:
            words = [f"{keys.LIMITS}{name}"], [limit, WINDOW_US]
            wait_us: int = await self._admit(*words, client=self._client)
            return wait_us

        async with asyncio.timeout(server.QUICK_S):  # also for all that it takes to connect, twice
            client = self._client
            try:
                wait_us = await ask()
            except _CLOSED:
                self._renew(client)
                wait_us = await ask()
        return wait_us / 1e6

    async def note(self, name: str, limit: int, ages_s: Sequence[float]) -> None:
        """Count requests that were admitted without the server, ``ages_s`` seconds ago.

        Raises as ``admit`` does."""
        ages_us = [round(age_s * 1e6) for age_s in ages_s]
        words = [f"{keys.LIMITS}{name}"], [limit, WINDOW_US, *ages_us]
        async with asyncio.timeout(server.QUICK_S):
            await self._note(*words, client=self._client)

    async def connect(self) -> None:
        """Connect to the server, allowing time to ask several Sentinels. Raises as ``admit`` does."""
        self._renew(self._client)
        await self._client.ping()

    def _renew(self, client: server.Client) -> None:
        """Use new connections from now on: if one was dead, others of its age probably are, too.

        ``client`` may still be used by other calls, so it is closed later."""
        if client is not self._client:
            return  # another call did so
        self._client = server.connect_async(self._url)
        closing = asyncio.create_task(_close_later(client))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the connections."""
        for closing in list(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await server.close_async(self._client)


async def _close_later(client: server.Client) -> None:
    """Close a client once no call can use it any more."""
    try:
        await asyncio.sleep(server.QUICK_S)
    finally:
        with suppress(redis.RedisError, OSError):
            await server.close_async(client)
