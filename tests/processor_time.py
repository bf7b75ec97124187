"""Limits on the processor time of the code under test, for what must not take it out of proportion.

Only the thread that runs it counts, and the collector of garbage stands still: it begins in any test, and
takes the longer the more others have left. A limit is several times of what a slow machine takes, and less
than what the fault would take on a quick one."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the collector of garbage away from a block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def takes_less_than(seconds: float) -> Iterator[None]:
    """Fail where a block takes so much of the processor."""
    with without_collector():
        began_s = time.thread_time()
        yield
        took_s = time.thread_time() - began_s
    assert took_s < seconds, f"it took {took_s:.2f} s of the processor"
