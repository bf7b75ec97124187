"""File descriptors: the limit of this process, and logging when none are left."""

import asyncio
import errno
import logging
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runtime.trouble_log import TroubleLog

# What macOS allows where its hard limit is "unlimited" (OPEN_MAX).
MOST_OF_UNLIMITED = 10_240
# After so long without an error, the next one is logged as a new shortage.
NEW_SHORTAGE_S = 60.0
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_limit() -> None:
    """Raise the limit of descriptors of this process, and of processes that it starts, as far as allowed.

    The usual soft limit of 1,024 (256 on macOS) is for programs that call ``select``. Each live stream
    uses three in the proxy alone: for client, upstream and spool."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        wanted = max(soft, MOST_OF_UNLIMITED)
        with suppress(ValueError, OSError):  # then it stays what it was
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def read_limit() -> int:
    """Return the maximum number of descriptors of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def count_open() -> int:
    """Return the number of open descriptors of this process. Raises OSError if none is left to count them."""
    with os.scandir("/dev/fd") as entries:
        return sum(1 for _ in entries) - 1  # which has one of its own


class AcceptErrors:
    """A log of failures to accept connections, with one line for each shortage of descriptors.

    asyncio would log a traceback up to 2,048 times a second. ``make_room`` is called at each failure,
    with the time of the monotonic clock."""

    def __init__(
        self, logger: logging.Logger, make_room: Callable[[float], object] = lambda _: None
    ) -> None:
        self._make_room = make_room
        self._trouble = TroubleLog(
            logger, "No connection can be accepted (%s): new clients wait. Raise `ulimit -Hn`."
        )
        self._last_s = 0.0

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle the loop's errors of accepting; its previous exception handler gets all other errors."""
        others = loop.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, OSError) and error.errno in _SHORTAGES and "socket" in context:
                self._report(error)
            elif others is not None:
                others(loop, context)
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(handle)

    def _report(self, error: OSError) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s > NEW_SHORTAGE_S:
            self._trouble.clear()
        self._last_s = now_s
        self._trouble.report(error.strerror or str(error))
        self._make_room(now_s)
