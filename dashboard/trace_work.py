"""Work on the traces of the caller's organisation, in a thread, over a connection that is kept open.

Requests of an organisation to one group of pages are processed one after the other, so that no
organisation can occupy all threads.
"""

import sqlite3
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dashboard.call.lookup import NO_CALL
from dashboard.site import Site
from runtime.organization_locks import BusyError, OrganizationLocks
from store.control.people import Caller
from store.traces.calls.call_reader import CallReader
from store.traces.paths import trace_path

_BUSY = "Earlier requests of your organisation are still running."


class TraceWork:
    """Runs the work of one group of pages, for each organisation one request at a time."""

    def __init__(self, site: Site) -> None:
        self._data_dir = site.settings.data_dir
        self._connections = site.connections
        self._locks = OrganizationLocks()

    async def run[T](self, caller: Caller, work: Callable[[sqlite3.Connection | None], T]) -> T:
        """Call ``work`` in a thread with the traces of the caller's organisation; return its result.

        The connection is None if nothing has been recorded. Raises what ``work`` raises, and
        HTTPException if too many requests wait."""
        path = trace_path(self._data_dir, caller.organization_id)

        def run() -> T:
            if not path.exists():
                return work(None)
            with self._connections.lend(path) as connection:
                return work(connection)

        try:
            async with self._locks.acquire(caller.organization_id):
                return await run_in_threadpool(run)
        except BusyError as error:
            raise HTTPException(503, _BUSY, {"retry-after": "3"}) from error

    async def run_on_calls[T](self, caller: Caller, work: Callable[[CallReader], T]) -> T:
        """Call ``work`` in a thread with the calls of the caller's organisation; return its result.

        Raises as ``run`` does, and HTTPException (404) if nothing has been recorded."""

        def run(connection: sqlite3.Connection | None) -> T:
            if connection is None:
                raise HTTPException(404, NO_CALL)
            return work(CallReader(connection))

        return await self.run(caller, run)


class TracePages:
    """The base class of pages about the traces of the caller's organisation."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._visitors = site.visitors
        self._work = TraceWork(site)

    async def _answer(
        self, request: Request, make: Callable[[Caller, sqlite3.Connection | None], Response]
    ) -> Response:
        """Return the response that ``make`` makes from the caller and the traces of their organisation.

        Raises NotSignedInError, and what ``TraceWork.run`` raises."""
        caller = await self._visitors.require_caller(request)
        return await self._work.run(caller, lambda db: make(caller, db))
