"""Sending of responses at the speed of their clients, for all pages.

A response that its client does not read stays in memory, in parts or as a whole. So a response is cut if
its client takes nothing for a while, or too little, and the total of unread bytes is bounded: above the
bound, the slowest response of the client with the most unread bytes is cut.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.attempts import client_network

NO_PROGRESS_S = 15.0  # from one part of a body to the next
MIN_BYTES_PER_S = 32 << 10  # of the time that is spent waiting for the client
PART_BYTES = 64 << 10  # that are sent at once: as many may wait in the buffer of a connection
MAX_UNREAD_BYTES = 64 << 20

logger = logging.getLogger(__name__)


class CutError(Exception):
    """Raised if a response cannot be finished, so that its connection is closed without its end."""


class CuttableResponse:
    """A response whose rate is measured, and that can be cut while it is being sent."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._sent_bytes = 0
        self._begun_s = clock_s()
        self._sending: asyncio.Timeout | None = None
        self.is_cut = False

    @property
    def bytes_per_s(self) -> float:
        return self._sent_bytes / (self._clock_s() - self._begun_s + 0.001)

    def cut(self) -> None:
        """Cut the response now. A second call does nothing."""
        if not self.is_cut:
            self.is_cut = True
            if self._sending is not None:
                self._sending.reschedule(asyncio.get_running_loop().time())


class PacedResponse(CuttableResponse):
    """A response that is sent part by part: the next part after the client took the last. ``address`` is
    the client's address."""

    def __init__(
        self,
        send: Send,
        unread: "UnreadResponses",
        address: str = "",
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock_s)
        self._send = send
        self._unread = unread
        self.address = address
        self._waited_s = 0.0  # for the client

    async def send(self, message: Message) -> None:
        """Send a message in parts, after the client took what was sent before.

        Raises CutError if the client is too slow, or too much is unread in total."""
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await self._send_part(message)
            return
        with self._unread.hold(self, len(body)):
            for start in range(0, len(body), PART_BYTES):
                end = start + PART_BYTES
                more = end < len(body) or message.get("more_body", False)
                await self._send_part({**message, "body": body[start:end], "more_body": more})
                await asyncio.sleep(0)  # of a large body there is more, and others want their turn

    async def _send_part(self, message: Message) -> None:
        if self.is_cut:
            raise CutError("too much is unread")
        owed_s = self._sent_bytes / MIN_BYTES_PER_S - self._waited_s
        begun_s = self._clock_s()
        try:
            async with asyncio.timeout(NO_PROGRESS_S + min(owed_s, 0)) as self._sending:
                await self._send(message)
        except TimeoutError as error:
            if self.is_cut:
                raise CutError("too much is unread") from error
            self.is_cut = True
            raise CutError("its client did not read on, or too slowly") from error
        finally:
            self._sending = None
        self._waited_s += self._clock_s() - begun_s
        self._sent_bytes += len(message.get("body", b""))


class UnreadResponses:
    """The large bodies that are being sent, which stay in memory until their clients have read them."""

    def __init__(self) -> None:
        self._held: dict[PacedResponse, int] = {}

    @contextmanager
    def hold(self, response: PacedResponse, size: int) -> Iterator[None]:
        """Count ``size`` bytes of a body as unread until the end of the block.

        If the total is too large, responses are cut, which may include this one."""
        self._held[response] = size
        try:
            self._bound()
            yield
        finally:
            del self._held[response]

    def _bound(self) -> None:
        going_on = {each: size for each, size in self._held.items() if not each.is_cut}
        held = Counter[str]()
        for each, size in going_on.items():
            held[each.address] += size
        while sum(going_on.values()) > MAX_UNREAD_BYTES and len(going_on) > 1:
            slowest = min(going_on, key=lambda each: (-held[each.address], each.bytes_per_s))
            held[slowest.address] -= going_on.pop(slowest)
            slowest.cut()


class SlowReaders:
    """Middleware that sends every response as a PacedResponse."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._unread = UnreadResponses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        address = client_network(client[0]) if client else ""
        response = PacedResponse(send, self._unread, address)
        try:
            await self._app(scope, receive, response.send)
        except CutError as error:
            # It is left unfinished: the connection is then closed, and nobody takes it for a whole one.
            logger.warning("A response to %s was cut: %s", address, error)
