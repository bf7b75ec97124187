"""The periodic tasks of the proxy (timeouts, sweeps, counts): four times a second, or every 2 s."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

TICK_S = 0.25
SELDOM_S = 2.0

type PeriodicTask = Callable[[float], object]
"""Takes the time of the monotonic clock, in seconds."""


class PeriodicTasks:
    """Runs the ``often`` tasks four times a second, and the ``seldom`` ones every two seconds."""

    def __init__(self, often: Sequence[PeriodicTask], seldom: Sequence[PeriodicTask]) -> None:
        self._often = often
        self._seldom = seldom
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop the tasks, if they were started."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        last_seldom_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            run_all(self._often, now_s)
            if now_s - last_seldom_s >= SELDOM_S:
                last_seldom_s = now_s
                run_all(self._seldom, now_s)


def run_all(tasks: Sequence[PeriodicTask], now_s: float) -> None:
    """Run each task. If one fails, that is logged, and the others still run."""
    for task in tasks:
        try:
            task(now_s)
        except Exception:
            logger.exception("A periodic task failed")
