"""A deadline for a call of a library that only knows how long each read of a socket may take."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 1.0  # where something swallows the exception


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block once it has taken ``seconds``. Only for the main thread."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("it did not respond in time")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
