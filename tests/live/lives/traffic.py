"""Traffic by several clients at once."""

import threading
from collections.abc import Callable, Sequence

from tests.upstream import Upstream, wait_until


class Workers:
    """Some threads that work through the numbers; leaving the block waits for them all and raises
    the first error that one of them met."""

    def __init__(self, work: Callable[[int], None], numbers: Sequence[int], count: int = 6) -> None:
        self._work = work
        self._numbers = iter(numbers)
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a call hangs"
        if self._errors and error is None:
            raise self._errors[0]

    def _run(self) -> None:
        while not self._errors:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            try:
                self._work(number)
            except BaseException as error:  # raised again by the test's thread
                self._errors.append(error)


def wait_for_traffic(upstream: Upstream, count: int) -> None:
    """Wait until the upstream has seen more requests than that."""
    wait_until(lambda: len(upstream.requests) > count, f"{count} requests at the upstream")
