"""Forwarding the responses of query processes, and cutting those that cannot be finished."""

import asyncio
from collections import Counter
from collections.abc import Callable

from dashboard.queries.client import Connection, Head, ProcessGoneError
from dashboard.queries.protocol import MAX_READING
from dashboard.queries.query import Request
from dashboard.slow_readers import CutError, CuttableResponse

PAGE_S = 6.0  # from one part of a body to the next, by the process


class ProcessFaultError(CutError):
    """Raised if a response cannot be finished because of its process. The process ended, stopped sending,
    or sent too much."""


class Body(CuttableResponse):
    """The body of a response. It is forwarded part by part: the next one is read after the client took the
    last."""

    def __init__(
        self, request: Request, connection: Connection, clock_s: Callable[[], float]
    ) -> None:
        super().__init__(clock_s)
        self._request = request
        self._query = request.query
        self._connection = connection

    @property
    def organization_id(self) -> str:
        return self._query.organization_id

    async def forward(self, head: Head) -> None:
        """Send the head and the whole body. Raises CutError."""
        start = {"type": "http.response.start", "status": head.status, "headers": head.headers}
        try:
            async with asyncio.timeout(None) as self._sending:
                await self._request.send(start)
                while (part := await self._read()) is not None:
                    await self._send_part(part)
                await self._request.send({"type": "http.response.body", "body": b""})
        except TimeoutError as error:
            raise CutError("too many are read, of which it is the slowest") from error

    async def _read(self) -> bytes | None:
        try:
            async with asyncio.timeout(PAGE_S):
                return await self._connection.read()
        except TimeoutError as error:
            raise ProcessFaultError(f"its process sent nothing for {PAGE_S:g} s") from error
        except ProcessGoneError as error:
            raise ProcessFaultError(f"its process ended: {error}") from error

    async def _send_part(self, part: bytes) -> None:
        self._sent_bytes += len(part)
        if self._sent_bytes > self._query.max_bytes:
            raise ProcessFaultError(f"more than {self._query.max_bytes >> 20} MB")
        try:
            await self._request.recheck(self._clock_s())
        except Exception as error:
            # Whatever the reason, also one that passes: what may not be read is not sent.
            raise CutError(f"its caller may no longer read ({error!r})") from error
        await self._request.send({"type": "http.response.body", "body": part, "more_body": True})


class Readers(set[Body]):
    """The responses that are long, or are read slowly. If there are more than ``MAX_READING``, the slowest
    of the organisation with most of them is cut."""

    def add(self, body: Body) -> None:
        super().add(body)
        going_on = [each for each in self if not each.is_cut]
        held = Counter(each.organization_id for each in going_on)
        if len(going_on) > MAX_READING:
            min(going_on, key=lambda each: (-held[each.organization_id], each.bytes_per_s)).cut()
