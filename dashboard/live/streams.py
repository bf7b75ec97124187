"""Streams of server-sent events: their limits in number, and when each ends.

Each takes a connection to the web process for as long as it lasts. The front door hands out 256 of
these, 64 to one client address (``addon/holdings.py``). Streams may take half of them, so that people
behind one address can open pages however many pages follow calls.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from dashboard.current_counts import CurrentCounts
from dashboard.rendering import PRIVATE
from dashboard.visitors import NotSignedInError, TooManyBadKeysError, Visitors, find_client
from store.control.people import Caller

MAX_OF_ALL, MAX_OF_ADDRESS, MAX_OF_USER = 128, 32, 8
_ALL = ("all", "")
HEARTBEAT_S = 5.0  # also how often a caller is checked again while nothing happens
RETRY_MS = 2_000
_HEADERS = {**PRIVATE, "x-accel-buffering": "no"}  # else nginx holds events back
BEAT = ": still here\n\n"
START = f"retry: {RETRY_MS}\n\n"
END = 'event: end\ndata: {"reason": "signed out"}\n\n'

type Events = AsyncGenerator[str]
type Check = Callable[[], Awaitable[bool]]


def format_event(name: str, data: object, event_id: int | None = None) -> str:
    """Return a server-sent event with ``data`` as JSON."""
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {name}\ndata: {orjson.dumps(data).decode()}\n\n"


class Streams:
    """All event streams of the web process, with limits in total, by client address and by user."""

    def __init__(self) -> None:
        self._open = CurrentCounts[tuple[str, str]]()
        self._stopping = asyncio.Event()

    @property
    def count(self) -> int:
        return self._open[_ALL]

    def stop(self) -> None:
        """End every stream now, and refuse new ones, so that open pages do not delay the service's stop."""
        self._stopping.set()

    def respond(self, request: Request, caller: Caller, events: Events) -> StreamingResponse:
        """Return a stream of these events. Raises HTTPException if there are too many streams."""
        address = find_client(request)
        self._check_room(caller, address)
        return StreamingResponse(
            self._send(caller, address, events), media_type="text/event-stream", headers=_HEADERS
        )

    async def wait(self, event: asyncio.Event, within_s: float) -> None:
        """Wait until the event is set, the service stops, or ``within_s`` seconds are over."""
        waiting = {
            asyncio.create_task(event.wait()),
            asyncio.create_task(self._stopping.wait()),
        }
        try:
            await asyncio.wait(waiting, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    def _check_room(self, caller: Caller, address: str) -> None:
        if self._stopping.is_set():
            raise HTTPException(503, "The service stops.", {"retry-after": "5"})
        if (
            self.count >= MAX_OF_ALL
            or self._open["address", address] >= MAX_OF_ADDRESS
            or self._open["user", caller.user_id] >= MAX_OF_USER
        ):
            raise HTTPException(
                429, "Too many pages follow calls already. Reload this one.", {"retry-after": "30"}
            )

    async def _send(self, caller: Caller, address: str, events: Events) -> AsyncGenerator[str]:
        with self._open.count(_ALL, ("address", address), ("user", caller.user_id)):
            try:
                yield START
                async for event in events:
                    yield event
                    if self._stopping.is_set():
                        return
            finally:
                await events.aclose()


def make_check(visitors: Visitors, request: Request, caller: Caller) -> Check:
    """Return a function that returns whether the caller may still read."""

    async def check() -> bool:
        try:
            await visitors.check_caller(request, caller)
        except (NotSignedInError, TooManyBadKeysError):
            return False
        return True

    return check
