"""The proxy that forwards requests from the web process to query processes.

Requests of one organisation are computed one at a time, each by a process of its own until the response
is sent. So it is always known whose query occupies a process, and killing the process harms no other
query. If a request takes too long, is too large, or its response is not read, its process is killed. If
a client disconnects, its process is told to stop, which takes milliseconds, and can then be used again.
If it does not stop, it is killed as if the client were still connected.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.types import Receive, Send

from dashboard.addresses import requested
from dashboard.current_counts import CurrentCounts
from dashboard.queries.client import (
    Connection,
    Head,
    NotThereError,
    ProcessGoneError,
    SilentError,
)
from dashboard.queries.lanes import QUICK_S, Lanes, Place
from dashboard.queries.processes import Processes, cpu_s
from dashboard.queries.query import Query, Request
from dashboard.queries.refusals import Refusals
from dashboard.queries.responses import Body, ProcessFaultError, Readers
from dashboard.slow_readers import CutError
from runtime.organization_locks import BusyError, OrganizationLocks

# In the quick lane, however little of the processor there was; less when others wait for a place.
MAX_QUICK_S, CROWDED_QUICK_S, LOOK_EVERY_S = 1.0, 0.15, 0.02
# A page may take so many times as long in the quick lane: nearly all are done then, and on a busy machine
# what goes on in the slow lane gets hardly any of the processor.
PAGE_PATIENCE = 4
RUNNING_S = 2.0  # until a process confirms the request
STOP_S = 0.1  # for a process that was told to stop
MAX_WAIT_S = 30.0  # for the lock of the organisation and a place in a lane
READING_AFTER_S = 1.0  # after the head: others are computed while the rest is read
MAX_DOWNLOADS = 2  # of one organisation at once
MAX_DEATHS = 2  # of processes for one request

logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """Raised if a query took too much time or memory before its response, so its process was killed."""


class RefusedError(Exception):
    """Raised if an organisation must wait ``wait_s`` seconds: its queries had to be stopped repeatedly."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"wait {wait_s} s")
        self.wait_s = wait_s


class DownloadsError(Exception):
    """Raised if the organisation has the maximum number of downloads in progress."""


class _SlowError(Exception):
    """Raised if a request must be repeated in the slow lane."""


class QueryProxy:
    """A proxy that finds a process for each query. ``folder`` has the sockets of the pool, None without a
    pool. At most ``count + 1`` requests are computed at once."""

    def __init__(
        self, folder: Path | None, count: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_s = clock_s
        self._locks = OrganizationLocks()
        self._lanes = Lanes(count, clock_s)
        self._processes = Processes(folder, max(1, count - 1))
        self._refusals = Refusals(clock_s)
        self._readers = Readers()
        self._downloads = CurrentCounts[str]()

    def close(self) -> None:
        """Close the connections that are kept open for the next requests."""
        self._processes.close()

    async def forward(self, query: Query, receive: Receive, send: Send) -> None:
        """Forward a request and its response, until the client disconnects.

        Raises BusyError, RefusedError, DownloadsError, NoProcessError, StoppedError, and what ``check``
        raises; in each case nothing has been sent. If a response cannot be finished, its connection is
        cut, so that no client takes the part for the whole."""
        request = Request(query=query, send=send, begun_s=self._clock_s())
        forwarding = asyncio.create_task(self._process(request))
        request.cancel = forwarding.cancel
        request.on_disconnect(request.cancel)
        leaving = asyncio.create_task(_wait_for_end(receive))
        try:
            await asyncio.wait({forwarding, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not forwarding.done():
                request.disconnect()
                await asyncio.wait({forwarding})
        finally:
            forwarding.cancel()
            leaving.cancel()
            await asyncio.wait({forwarding, leaving})
        if not forwarding.cancelled():
            forwarding.result()

    async def _process(self, request: Request) -> None:
        query = request.query
        self._check_refused(query)
        with self._count_download(query):
            async with self._locks.acquire(query.lock_key, MAX_WAIT_S) as request.release_lock:
                await self._repeat(request)

    async def _repeat(self, request: Request) -> None:
        """Repeat a request until there is a response. Raises StoppedError after ``MAX_DEATHS`` processes
        ended."""
        deaths, is_slow = 0, False
        while deaths < MAX_DEATHS:  # somebody else may have ended the first; it only reads
            self._check_refused(request.query)
            place = await self._take_place(request, is_slow=is_slow)
            try:
                await self._try(request, place)
            except _SlowError:
                is_slow = True
            except (NotThereError, SilentError):
                continue  # the process never had the query
            except ProcessGoneError:
                deaths += 1
            else:
                return
            finally:
                self._lanes.release(place)
                request.on_disconnect(request.cancel)
            if request.is_disconnected:
                return
        self._note_kill(request.query)
        raise StoppedError("it ended its processes")

    @contextmanager
    def _count_download(self, query: Query) -> Iterator[None]:
        """Count a download until the end of the block. Raises DownloadsError if there are too many."""
        if not query.is_stream:
            yield
            return
        organization_id = query.organization_id
        if self._downloads[organization_id] >= MAX_DOWNLOADS:
            raise DownloadsError
        with self._downloads.count(organization_id):
            yield

    def _check_refused(self, query: Query) -> None:
        wait_s = self._refusals.find_wait(query.organization_id) if query.is_of_tables else 0
        if wait_s:
            raise RefusedError(wait_s)

    def _note_kill(self, query: Query) -> None:
        """Count a process that was killed for a query against its organisation.

        Pages of text do not count: others may have recorded the text that its members read."""
        if query.is_of_tables:
            self._refusals.note_kill(query.organization_id)

    async def _take_place(self, request: Request, *, is_slow: bool) -> Place:
        left_s = MAX_WAIT_S - (self._clock_s() - request.begun_s)
        if left_s <= 0:
            raise BusyError
        try:
            async with asyncio.timeout(left_s):
                return await self._lanes.acquire(request.query.account, is_slow=is_slow)
        except TimeoutError as error:
            raise BusyError from error

    async def _try(self, request: Request, place: Place) -> None:
        organization_id = request.query.organization_id
        pid = await self._processes.acquire(organization_id, is_slow=place.is_slow)
        async with self._processes.lend(pid) as connection:
            request.ignore_disconnect()  # what has not begun cannot be stopped
            await self._begin(request.query, pid, connection)
            request.on_disconnect(connection.abandon)
            try:
                head = await self._fetch_head(request.query, place, pid, connection)
                request.on_disconnect(request.cancel)
                await request.recheck(self._clock_s())
                await self._send(request, place, pid, connection, head)
            except _SlowError:
                if not await connection.stop(STOP_S) and request.is_disconnected:
                    self._note_kill(request.query)
                raise
            except asyncio.CancelledError:
                if place.is_held:  # otherwise the pool has another in its place
                    await connection.stop(STOP_S)
                raise

    async def _begin(self, query: Query, pid: int, connection: Connection) -> None:
        """Send the request to the process. Raises SilentError if the process does not confirm it in time."""
        target = requested(query.scope).encode("latin-1")
        try:
            async with asyncio.timeout(RUNNING_S):
                await connection.begin(query.scope["method"], target, query.headers, query.body)
        except TimeoutError as error:
            logger.warning("Query process %s stands still and is replaced.", pid)
            raise SilentError(f"process {pid} stands still") from error

    async def _fetch_head(
        self, query: Query, place: Place, pid: int, connection: Connection
    ) -> Head:
        watch = _Watch(pid, self._clock_s)
        fetching = asyncio.ensure_future(connection.read_head())
        try:
            patience = 1 if query.is_of_tables else PAGE_PATIENCE
            if not place.is_slow and not await self._is_quick(fetching, place, watch, patience):
                if not self._lanes.note_slow(place):
                    raise _SlowError
                self._processes.note_slow(pid)
            if not await _is_in_time(fetching, query, watch):
                self._note_kill(query)
                raise StoppedError(f"no response within {query.deadline_s:g} s")
            return fetching.result()
        finally:
            fetching.cancel()
            await asyncio.wait({fetching})

    async def _send(
        self, request: Request, place: Place, pid: int, connection: Connection, head: Head
    ) -> None:
        """Send the response. After ``READING_AFTER_S`` its place in the lane is released."""
        body = Body(request, connection, self._clock_s)

        def become_reader() -> None:
            request.release_lock()
            self._lanes.release(place)
            self._processes.note_reading(pid)
            self._readers.add(body)

        becoming = asyncio.get_running_loop().call_later(READING_AFTER_S, become_reader)
        try:
            await body.forward(head)
        except CutError as error:
            if isinstance(error, ProcessFaultError):
                self._note_kill(request.query)
            self._processes.kill(pid)
            logger.warning("A response to %s was cut: %s", body.organization_id, error)
        finally:
            becoming.cancel()
            if body in self._readers:
                self._readers.remove(body)
                self._processes.discard(pid)  # the pool has another in its place

    async def _is_quick(
        self, fetching: asyncio.Future[Head], place: Place, watch: "_Watch", patience: int
    ) -> bool:
        """Return whether the response arrives within the time of the quick lane.

        This is processor time, since on a busy machine every request takes long. The time is shorter
        while organisations with less recent use wait for the place. All times are multiplied by
        ``patience``."""
        left_s = patience * QUICK_S
        while not await _is_done(fetching, min(left_s, LOOK_EVERY_S)):
            left_s = patience * QUICK_S - watch.used_s
            most_s = CROWDED_QUICK_S if self._lanes.is_blocking_others(place) else MAX_QUICK_S
            if left_s <= 0 or watch.taken_s >= patience * most_s:
                return False
        return True


class _Watch:
    """The times in seconds since a query process was given a request."""

    def __init__(self, pid: int, clock_s: Callable[[], float]) -> None:
        self._pid = pid
        self._clock_s = clock_s
        self._begun_s, self._begun_cpu_s = clock_s(), cpu_s(pid)

    @property
    def taken_s(self) -> float:
        return self._clock_s() - self._begun_s

    @property
    def used_s(self) -> float:
        """Return the processor time that the process has used, or else ``taken_s``.

        The latter is returned if the kernel does not report the processor time."""
        now_cpu_s = cpu_s(self._pid)
        if now_cpu_s is None or self._begun_cpu_s is None:
            return self.taken_s
        return now_cpu_s - self._begun_cpu_s


async def _is_in_time(fetching: asyncio.Future[Head], query: Query, watch: _Watch) -> bool:
    """Return whether the response arrives within the query's limits of time and processor time."""
    while True:
        left_s = query.deadline_s - watch.taken_s
        if query.cpu_s is not None:
            # Processor time passes as fast as time at most, unless a process has several threads at work.
            left_s = min(left_s, query.cpu_s - watch.used_s)
        if await _is_done(fetching, max(left_s, 0)):
            return True
        if query.cpu_s is None or left_s <= 0:
            return False


async def _is_done(task: asyncio.Future[Head], within_s: float) -> bool:
    done, _ = await asyncio.wait({task}, timeout=within_s)
    return bool(done)


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
