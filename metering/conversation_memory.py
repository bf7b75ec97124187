"""The last request of each conversation, because the next one begins with nearly all of it.

A client sends its whole conversation with every turn. What was found out about the last request up
to where the two part need not be found out again. A guess decides which request is compared with
which, and the comparison is by bytes, so a wrong guess costs time and never changes a result.
"""

from collections import OrderedDict
from typing import NamedTuple

MAX_BYTES = 64 * 1024 * 1024
MIN_BODY_BYTES = 16 * 1024  # a smaller one is read anew in less time than it takes to look it up
_OPENING_BYTES = 1024

type Key = tuple[object, ...]


class Kept[T](NamedTuple):
    body: bytes
    found: T


class Conversations[T]:
    """A bounded memory: when it is full, the conversations that rested longest are forgotten."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[Key, Kept[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Key) -> Kept[T] | None:
        return self._kept.get(key)

    def keep(self, key: Key, body: bytes, found: T) -> None:
        """In the place of what was kept for that conversation before."""
        self.forget(key)
        self._kept[key] = Kept(body, found)
        self._bytes += len(body) + _OPENING_BYTES
        while self._bytes > self._max_bytes:
            self.forget(next(iter(self._kept)))

    def forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= len(kept.body) + _OPENING_BYTES


def guess_key(body: bytes, *labels: object) -> Key:
    """Which conversation it is: by what the client says of itself, and by how the first message
    begins, since one session may hold several and many sessions share prompt and tools."""
    opening = max(body.find(b'{"role":'), 0)
    return (*labels, body[opening : opening + _OPENING_BYTES])


def shared_length(first: bytes, second: bytes) -> int:
    """How many bytes both begin with. By halves, so that nearly all is compared at memory speed."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if second.startswith(first[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
