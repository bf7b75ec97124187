"""Work in threads of its own while something is measured."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

type Work = Callable[[threading.Event], None]
"""Work is done by a thread until the event is set."""


@contextmanager
def background(*works: Work) -> Iterator[None]:
    """Run each in a thread of its own until the block ends, and wait until all have ended."""
    is_over = threading.Event()
    threads = [threading.Thread(target=work, args=(is_over,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
