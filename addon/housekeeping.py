"""Work that is done again and again beside the exchanges."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

TICK_S = 0.25
SELDOM_S = 2.0

type Chore = Callable[[float], object]
"""Takes the time of the monotonic clock, in seconds."""


class Housekeeping:
    """Does the ``often`` chores four times a second and the ``seldom`` ones every two seconds."""

    def __init__(self, often: Sequence[Chore], seldom: Sequence[Chore]) -> None:
        self._often = often
        self._seldom = seldom
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """End; nothing happens where it was never started."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        last_seldom_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            do_all(self._often, now_s)
            if now_s - last_seldom_s >= SELDOM_S:
                last_seldom_s = now_s
                do_all(self._seldom, now_s)


def do_all(chores: Sequence[Chore], now_s: float) -> None:
    """Do each chore, whatever becomes of the others: one that fails is tried again the next time, and
    must not end every timeout."""
    for chore in chores:
        try:
            chore(now_s)
        except Exception:
            logger.exception("Housekeeping failed")
