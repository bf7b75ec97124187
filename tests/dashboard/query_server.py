"""Query processes that are none: the real application on real sockets, served by a thread of the tests.

So whatever asks the web process for tables goes through the real query proxy, without the seconds that real
processes would take for every test. Those have tests of their own (tests/dashboard/queries, tests/live).
"""

import asyncio
import itertools
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from dashboard.queries import processes, protocol, query_proxy
from dashboard.queries.connections import Server, listen
from dashboard.queries.process import QueryApp
from runtime.settings import QUERY_SOCKETS_VARIABLE

COUNT = 3
_no_pids = itertools.count(100_000_000)  # no kernel gives such a pid


class QueryServer:
    """One for the whole session; each test has its own folders (``serving``)."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._app: QueryApp | None = None
        self._servers: list[Server] = []
        self._held: dict[str, asyncio.Event] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._app is not None
        if held := self._held.get(scope["path"]):
            await held.wait()
        await self._app(scope, receive, send)

    def hold(self, path: str) -> Callable[[], object]:
        """Make no page of this path until the function is called that this returns."""
        held = self._held[path] = asyncio.Event()
        return lambda: self._loop.call_soon_threadsafe(held.set)

    @property
    def app(self) -> QueryApp:
        assert self._app is not None
        return self._app

    @contextmanager
    def serving(self, traces: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The web process that is made meanwhile finds its query processes here."""
        with tempfile.TemporaryDirectory(prefix="taximeter-") as folder:
            monkeypatch.setenv(QUERY_SOCKETS_VARIABLE, folder)
            monkeypatch.setattr(processes, "hold", lambda _pid, _fd: None)
            monkeypatch.setattr(processes, "kill_process", lambda *_: self._start(Path(folder)))
            # Threads hold each other up, and have no clocks of their own: none is taken for slow.
            for name in ("QUICK_S", "MAX_QUICK_S"):
                monkeypatch.setattr(query_proxy, name, 60.0)
            self._app = QueryApp(traces)
            for _ in range(COUNT):
                self._start(Path(folder))
            try:
                yield
            finally:
                self._run(self._end())

    def _start(self, folder: Path) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{folder}/{next(_no_pids)}{protocol.SOCKET_SUFFIX}")
        self._servers.append(self._run(listen(self, listener, threading.Event(), lambda: None)))

    def _run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._held.clear()
        self.app.abandoned.set()  # an endless query would take the processor until its time limit
        self.app.instances.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:  # of clients that have left
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._app = None
