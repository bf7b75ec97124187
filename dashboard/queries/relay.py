"""A request goes from the web process to a query process, and its response comes back.

One organisation's requests are computed one at a time, each by a process that it has alone until it is
answered: so it is never in doubt whose query holds a process, nobody else's fails with it, and killing
it harms nobody. What takes too long, is too long, or is not read ends with its process.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope, Send

from dashboard.addresses import requested
from dashboard.queries.client import Connection, Head, NotThereError, ProcessGoneError
from dashboard.queries.lanes import QUICK_S, Lanes, Place
from dashboard.queries.processes import Processes, cpu_s
from dashboard.queries.protocol import HEADER, MAX_READING, Caller, forwarded_headers
from dashboard.queries.refusals import Refusals
from dashboard.turns import BusyError, Turns

# In the quick lane, however little of the processor there was; less when others wait for a place.
MAX_QUICK_S, CROWDED_QUICK_S, LOOK_EVERY_S = 1.0, 0.15, 0.02
DEADLINE_S = 4.0  # to the response's head; a query itself is stopped after 3
MAX_WAIT_S = 30.0  # for one's turn and a place in a lane
READING_AFTER_S = 1.0  # after the head: others are computed while the rest is read
PAGE_S = 6.0  # from one part of a body to the next, by the process
NO_PROGRESS_S = 15.0  # the same by the client
MIN_BYTES_PER_S = 32 << 10  # by the client, of the time that is spent waiting for it
RECHECK_S = 0.25
MAX_RESPONSE_BYTES, MAX_STREAM_BYTES = 256 << 20, 1100 << 20
MAX_DEATHS = 2  # of processes for one request

logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """A query took a process with it, by time or by memory, before there was a response."""


class RefusedError(Exception):
    """An organisation has to wait, since its queries had to be stopped repeatedly."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"wait {wait_s} s")
        self.wait_s = wait_s


class _SlowError(Exception):
    """It has to begin anew, in the slow lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """It is a request for Datasette. ``check`` raises when its caller may no longer read; the response's
    head has to be there within ``deadline_s`` of its turn."""

    scope: Scope
    caller: Caller
    check: Callable[[], Awaitable[object]]
    deadline_s: float = field(default_factory=lambda: DEADLINE_S)

    @property
    def organization_id(self) -> str:
        return self.caller.organization_id

    @property
    def is_stream(self) -> bool:
        arguments = self.scope["query_string"].decode("latin-1")
        return self.scope["path"].endswith(".csv") and "_stream" in parse_qs(arguments)

    @property
    def turn(self) -> str:
        """Downloads take turns among themselves: pages must not wait for them."""
        return f"{self.organization_id}/stream" if self.is_stream else self.organization_id

    @property
    def max_bytes(self) -> int:
        return MAX_STREAM_BYTES if self.is_stream else MAX_RESPONSE_BYTES


class QueryRelay:
    """Finds a process for each query. ``folder`` is where the pool has its sockets, None without one."""

    def __init__(
        self, folder: Path | None, count: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_s = clock_s
        self._turns = Turns()
        self._lanes = Lanes(count, clock_s)
        self._processes = Processes(folder, max(1, count - 1))
        self._refusals = Refusals(clock_s)
        self._readers = _Readers()

    async def answer(self, query: Query, receive: Receive, send: Send) -> None:
        """Relay the request and its response, until the client leaves.

        Raises BusyError, RefusedError, NoProcessError, StoppedError or what ``check`` raises, all
        before anything was sent. A response that cannot be finished is left unfinished: its connection
        is then cut, so that nobody takes it for a whole one."""
        answering = asyncio.create_task(self._answer(query, send))
        leaving = asyncio.create_task(_wait_for_end(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.wait({answering, leaving})
        if not answering.cancelled():
            answering.result()

    async def _answer(self, query: Query, send: Send) -> None:
        begun_s = self._clock_s()
        self._check_refused(query)
        async with self._turns.take(query.turn, MAX_WAIT_S) as end_turn:
            deaths, is_slow = 0, False
            while deaths < MAX_DEATHS:  # somebody else may have ended the first; it only reads
                self._check_refused(query)
                place = await self._take_place(query, begun_s, is_slow=is_slow)
                try:
                    await self._try(query, place, end_turn, send)
                except _SlowError:
                    is_slow = True
                    continue
                except NotThereError:
                    continue
                except ProcessGoneError:
                    deaths += 1
                    continue
                finally:
                    self._lanes.release(place)
                return
            self._refusals.note_kill(query.organization_id)
            raise StoppedError("it ended its processes")

    def _check_refused(self, query: Query) -> None:
        wait_s = self._refusals.find_wait(query.organization_id)
        if wait_s:
            raise RefusedError(wait_s)

    async def _take_place(self, query: Query, begun_s: float, *, is_slow: bool) -> Place:
        try:
            async with asyncio.timeout(max(MAX_WAIT_S - (self._clock_s() - begun_s), 0)):
                return await self._lanes.take(query.organization_id, is_slow=is_slow)
        except TimeoutError as error:
            raise BusyError from error

    async def _try(
        self, query: Query, place: Place, end_turn: Callable[[], None], send: Send
    ) -> None:
        pid = await self._processes.take(query.organization_id, is_slow=place.is_slow)
        with (
            self._processes.lend(pid),
            closing(await self._processes.connect(pid)) as connection,
        ):
            head = await self._fetch_head(query, place, pid, connection)
            await query.check()
            body = _Body(query, connection, send, self._clock_s)

            def become_reader() -> None:
                end_turn()
                self._lanes.release(place)
                self._processes.note_reading(pid)
                self._readers.add(body)

            becoming = asyncio.get_running_loop().call_later(READING_AFTER_S, become_reader)
            try:
                await body.relay(head)
            except _CutError as error:
                if error.is_by_process:
                    self._refusals.note_kill(query.organization_id)
                self._processes.kill(pid)
                logger.warning("A response to %s was cut: %s", query.organization_id, error)
            finally:
                becoming.cancel()
                if body in self._readers:
                    self._readers.remove(body)
                    self._processes.discard(pid)  # the pool has another in its place

    async def _fetch_head(
        self, query: Query, place: Place, pid: int, connection: Connection
    ) -> Head:
        scope = query.scope
        headers = [*forwarded_headers(scope["headers"]), (HEADER, query.caller.encode())]
        target = requested(scope).encode("latin-1")
        begun_s = self._clock_s()
        fetching = asyncio.ensure_future(connection.request(scope["method"], target, headers))
        try:
            if not place.is_slow and not await self._is_quick(fetching, pid):
                if not self._lanes.note_slow(place):
                    raise _SlowError
                self._processes.note_slow(pid)
            left_s = query.deadline_s - (self._clock_s() - begun_s)
            if not await _is_done(fetching, max(left_s, 0)):
                self._refusals.note_kill(query.organization_id)
                raise StoppedError(f"no response within {query.deadline_s:g} s")
            return fetching.result()
        finally:
            fetching.cancel()
            await asyncio.wait({fetching})

    async def _is_quick(self, fetching: asyncio.Future[Head], pid: int) -> bool:
        """Wait until it is done or has used its time. That is counted in time of the processor: on a
        busy machine every request takes long. While others wait for its place, it has less patience."""
        begun_cpu_s, begun_s = cpu_s(pid), self._clock_s()
        left_s = QUICK_S
        while not await _is_done(fetching, min(left_s, LOOK_EVERY_S)):
            now_cpu_s, taken_s = cpu_s(pid), self._clock_s() - begun_s
            if begun_cpu_s is None or now_cpu_s is None:
                left_s = QUICK_S - taken_s
            else:
                left_s = QUICK_S - (now_cpu_s - begun_cpu_s)
            most_s = CROWDED_QUICK_S if self._lanes.is_quick_crowded else MAX_QUICK_S
            if left_s <= 0 or taken_s >= most_s:
                return False
        return True


class _CutError(Exception):
    """A response cannot be finished."""

    def __init__(self, reason: str, *, is_by_process: bool = False) -> None:
        super().__init__(reason)
        self.is_by_process = is_by_process


class _Body:
    """Passes a response on, a part at a time: the next is read when the last has been taken."""

    def __init__(
        self, query: Query, connection: Connection, send: Send, clock_s: Callable[[], float]
    ) -> None:
        self._query = query
        self._connection = connection
        self._send = send
        self._clock_s = clock_s
        self._sent_bytes = 0
        self._begun_s = self._checked_s = clock_s()
        self._waited_s = 0.0  # for the client
        self._cutting = asyncio.timeout(None)
        self.is_cut = False

    @property
    def organization_id(self) -> str:
        return self._query.organization_id

    @property
    def bytes_per_s(self) -> float:
        return self._sent_bytes / (self._clock_s() - self._begun_s + 0.001)

    def cut(self) -> None:
        """End it now; more than once does nothing."""
        if not self.is_cut:
            self.is_cut = True
            self._cutting.reschedule(asyncio.get_running_loop().time())

    async def relay(self, head: Head) -> None:
        """Send all of it. Raises _CutError."""
        start = {"type": "http.response.start", "status": head.status, "headers": head.headers}
        try:
            async with self._cutting:
                await self._hand_over(start)
                while (part := await self._read()) is not None:
                    await self._pass_on(part)
                await self._hand_over({"type": "http.response.body", "body": b""})
        except TimeoutError as error:
            raise _CutError("too many are read, of which it is the slowest") from error

    async def _read(self) -> bytes | None:
        try:
            async with asyncio.timeout(PAGE_S):
                return await self._connection.read()
        except TimeoutError as error:
            reason = f"its process sent nothing for {PAGE_S:g} s"
            raise _CutError(reason, is_by_process=True) from error
        except ProcessGoneError as error:
            raise _CutError(f"its process ended: {error}", is_by_process=True) from error

    async def _pass_on(self, part: bytes) -> None:
        self._sent_bytes += len(part)
        if self._sent_bytes > self._query.max_bytes:
            raise _CutError(f"more than {self._query.max_bytes >> 20} MB", is_by_process=True)
        if self._clock_s() - self._checked_s > RECHECK_S:
            try:
                await self._query.check()
            except Exception as error:
                # Whatever the reason, also one that passes: what may not be read is not sent.
                raise _CutError(f"its caller may no longer read ({error!r})") from error
            self._checked_s = self._clock_s()
        await self._hand_over({"type": "http.response.body", "body": part, "more_body": True})

    async def _hand_over(self, message: Message) -> None:
        """Wait until the client has taken it, in time and not too slowly altogether."""
        owed_s = self._sent_bytes / MIN_BYTES_PER_S - self._waited_s
        begun_s = self._clock_s()
        try:
            async with asyncio.timeout(NO_PROGRESS_S + min(owed_s, 0)):
                await self._send(message)
        except TimeoutError as error:
            raise _CutError("its client did not read on, or too slowly") from error
        self._waited_s += self._clock_s() - begun_s


class _Readers(set[_Body]):
    """Holds the responses that are read slowly, or are long. Of too many one is cut: of the organisation that has
    most of them, the slowest."""

    def add(self, body: _Body) -> None:
        super().add(body)
        going_on = [each for each in self if not each.is_cut]
        held = Counter(each.organization_id for each in going_on)
        if len(going_on) > MAX_READING:
            min(going_on, key=lambda each: (-held[each.organization_id], each.bytes_per_s)).cut()


async def _is_done(task: asyncio.Future[Head], within_s: float) -> bool:
    done, _ = await asyncio.wait({task}, timeout=within_s)
    return bool(done)


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
