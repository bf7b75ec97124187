"""Threads that use ``control.db`` for the event loop, each call with a connection that it has alone.

The event loop never touches ``control.db``: a write waits up to five seconds for whoever else writes,
and every page and every other request would wait with it. In WAL mode reads wait for nobody, so a few
threads are enough: while some of them wait to write, others read.

Connections are opened once. Opening one looks at the migrations and parses the schema, which takes
longer than most of what is asked for.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from runtime.settings import Settings
from store.control.database import ControlDatabase

COUNT = 4


class Workers:
    """``name`` is what the threads are called."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._executor: ThreadPoolExecutor | None = None
        self._idle: deque[ControlDatabase] = deque()

    @contextmanager
    def running(self) -> Iterator[None]:
        """They work within. Raises sqlite3.Error, OSError."""
        with ExitStack() as stack:
            self._idle = deque(
                stack.enter_context(ControlDatabase(self._settings.control_path, any_thread=True))
                for _ in range(COUNT)
            )
            # Entered last, so that no thread is at work when the connections close.
            self._executor = stack.enter_context(
                ThreadPoolExecutor(COUNT, thread_name_prefix=self._name)
            )
            yield

    async def run[T](self, work: Callable[[ControlDatabase], T], /) -> T:
        """Do it in a thread, in its turn. Raises what it raises."""
        if self._executor is None:
            raise RuntimeError("workers work only within running()")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._do, work)

    def _do[T](self, work: Callable[[ControlDatabase], T]) -> T:
        control = self._idle.pop()  # there are as many as there are threads
        try:
            return work(control)
        finally:
            self._idle.append(control)
