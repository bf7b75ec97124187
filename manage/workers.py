"""Threads that carry out what the API is asked for, each call with a connection that it has alone.

The event loop never touches ``control.db`` for the API: a write waits up to five seconds for whoever
else writes, and every page and every other request would wait with it. In WAL mode reads wait for
nobody, so a few threads are enough: while some of them wait to write, others read.

Connections are opened once. Opening one looks at the migrations and parses the schema, which takes
longer than most of what is asked for.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from manage.management import Management
from store.control import ControlDatabase
from store.settings import Settings

COUNT = 4


class Workers:
    def __init__(self, executor: ThreadPoolExecutor, idle: deque[Management]) -> None:
        self._executor = executor
        self._idle = idle

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator["Workers"]:
        """Ready to work until the end of the block. Raises sqlite3.Error, OSError."""
        with ExitStack() as stack:
            idle = deque(
                Management(
                    stack.enter_context(ControlDatabase(settings.control_path, any_thread=True)),
                    settings.data_dir,
                )
                for _ in range(COUNT)
            )
            # Entered last, so that no thread is at work when the connections close.
            executor = stack.enter_context(ThreadPoolExecutor(COUNT, thread_name_prefix="api"))
            yield cls(executor, idle)

    async def run[T](self, work: Callable[[Management], T]) -> T:
        """Do it in a thread, in its turn. Raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._do, work)

    def _do[T](self, work: Callable[[Management], T]) -> T:
        management = self._idle.pop()  # there are as many as there are threads
        try:
            return work(management)
        finally:
            self._idle.append(management)
