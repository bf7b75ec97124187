"""Work in threads of its own while something is measured."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.load import BenchError

type Work = Callable[[threading.Event], None]
"""Work is done by a thread until the event is set."""


@contextmanager
def background(*works: Work) -> Iterator[None]:
    """Run each in a thread of its own until the block ends, and wait until all have ended.

    Raises BenchError where one has failed: what was measured was not measured beside it."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def do(work: Work) -> None:
        try:
            work(is_over)
        except Exception as error:  # raised below
            failures.append(error)

    threads = [threading.Thread(target=do, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise BenchError(f"what was to go on meanwhile has failed: {failures[0]!r}")
