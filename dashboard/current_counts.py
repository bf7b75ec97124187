"""Counts of operations in progress, such as the downloads of each organisation."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class CurrentCounts[Key: Hashable]:
    """The number of open blocks of ``count`` for each key. Keys with the count 0 take no memory."""

    def __init__(self) -> None:
        self._counts = Counter[Key]()

    def __getitem__(self, key: Key) -> int:
        return self._counts[key]

    @contextmanager
    def count(self, *keys: Key) -> Iterator[None]:
        """Count one more for each of these keys until the end of the block."""
        self._counts.update(keys)
        try:
            yield
        finally:
            self._counts.subtract(keys)
            self._counts += Counter()  # keeps those that are positive
