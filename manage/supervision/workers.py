"""Worker threads that use ``control.db`` for the event loop.

The event loop never uses ``control.db`` itself: a write waits up to five seconds for other writers,
and every page and every other request would wait with it. In WAL mode reads wait for nobody, so a
few threads are enough: while some of them wait to write, others read.

Each connection is opened once. Opening one checks the migrations and parses the schema, which takes
longer than most operations.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Barrier

from runtime.settings import Settings
from store.control.database import ControlDatabase

COUNT = 4


class Workers:
    """A pool of threads, each with its own connection to ``control.db``. ``name`` is part of the
    names of the threads."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._executor: ThreadPoolExecutor | None = None
        self._idle: deque[ControlDatabase] = deque()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the threads, and stop them at the end of the block.

        Raises sqlite3.Error, OSError, RuntimeError."""
        with ExitStack() as stack:
            self._idle = deque(
                stack.enter_context(ControlDatabase(self._settings.control_path, any_thread=True))
                for _ in range(COUNT)
            )
            # Entered last, so that no thread is at work when the connections close.
            self._executor = stack.enter_context(
                ThreadPoolExecutor(COUNT, thread_name_prefix=self._name)
            )
            _start_threads(self._executor)
            yield

    async def run[T](self, work: Callable[[ControlDatabase], T], /) -> T:
        """Run ``work`` in a thread and return its result. Raises what ``work`` raises."""
        if self._executor is None:
            raise RuntimeError("workers work only within running()")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._do, work)

    def _do[T](self, work: Callable[[ControlDatabase], T]) -> T:
        control = self._idle.pop()  # there are as many as there are threads
        try:
            return work(control)
        finally:
            self._idle.append(control)


def _start_threads(executor: ThreadPoolExecutor) -> None:
    """Start all threads of a pool at once. Raises RuntimeError.

    By default the executor starts a thread when work arrives. If memory lacks then, it reports the
    work as failed although another thread still does it."""
    all_are_there = Barrier(COUNT)
    try:
        list(executor.map(lambda _: all_are_there.wait(), range(COUNT)))
    except RuntimeError:
        all_are_there.abort()
        raise
