"""A memory of the last request of each conversation, because the next one repeats nearly all of it.

A client sends its whole conversation with every turn. Results for the bytes that two requests have in
common need not be computed again. A guess decides which earlier request a request is compared with;
the comparison itself is of bytes, so a wrong guess costs time and never changes a result.
"""

from collections import Counter, OrderedDict
from typing import Any, NamedTuple

MAX_BYTES = 64 * 1024 * 1024
# Of a batch of long requests and of those before them, of which there are twice the 8 MB that end it, and
# the last one more. Where it is less, the first are forgotten before they are asked for again, then the
# second, and so all of them.
MAX_COMPARED_BYTES = 24 * 1024 * 1024
MIN_BODY_BYTES = 16 * 1024  # reading a smaller one again takes less time than looking it up
_OPENING_BYTES = 1024
_MESSAGE = b'{"role":'

type Key = tuple[object, ...]


class Kept[T](NamedTuple):
    """A request, and the results of analysing it."""

    body: bytes
    found: T


class ConversationMemory:
    """The last request of each conversation, with the results of each owner that analyses requests.

    Its size is bounded: when it is full, the least recently used conversations are forgotten. A body
    that several owners have analysed is one object and counts once, even if they identify conversations
    by different labels."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.total_bytes = 0
        self._max_bytes = max_bytes
        self._conversations: OrderedDict[Key, dict[object, Kept[Any]]] = OrderedDict()
        self._holders: Counter[int] = Counter()  # of each body, by its id
        self._comparisons = _Comparisons()
        self._opened: tuple[bytes, bytes] = (b"", b"")
        self._opening = (
            0  # in the last request, and nearly always in the next one of its conversation
        )

    def __len__(self) -> int:
        return len(self._conversations)

    def find(self, key: Key, owner: object) -> Kept[Any] | None:
        """Return what ``owner`` kept for a conversation, or None."""
        return self._conversations.get(key, {}).get(owner)

    def keep(self, key: Key, owner: object, kept: Kept[Any]) -> None:
        """Keep ``kept`` for a conversation, in place of what ``owner`` kept before."""
        conversation = self._conversations.pop(key, None)
        if conversation is None:
            conversation = {}
            self.total_bytes += _OPENING_BYTES
        elif owner in conversation:
            self._release(conversation[owner].body)
        conversation[owner] = kept
        self._hold(kept.body)
        self._conversations[key] = conversation  # the last is the one that was kept last
        while self.total_bytes > self._max_bytes:
            self._forget_oldest()

    def find_opening(self, body: bytes) -> bytes:
        """Return the beginning of the first message of a request. The last result is cached for other
        owners."""
        if self._opened[0] is not body:
            if not body.startswith(_MESSAGE, self._opening):
                self._opening = max(body.find(_MESSAGE), 0)
            self._opened = body, body[self._opening : self._opening + _OPENING_BYTES]
        return self._opened[1]

    def shared_length(self, first: bytes, second: bytes) -> int:
        """Return how many bytes at the beginning are equal. The result is cached for other owners."""
        return self._comparisons.find(first, second)

    def forget_batch(self) -> None:
        """Forget the cached comparisons, once all owners have read the same requests."""
        self._comparisons.forget()

    def clear(self) -> None:
        """Forget everything."""
        self.forget_batch()
        self._opened = (b"", b"")
        while self._conversations:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, conversation = self._conversations.popitem(last=False)
        self.total_bytes -= _OPENING_BYTES
        for kept in conversation.values():
            self._release(kept.body)

    def _hold(self, body: bytes) -> None:
        self._holders[id(body)] += 1
        if self._holders[id(body)] == 1:
            self.total_bytes += len(body)

    def _release(self, body: bytes) -> None:
        self._holders[id(body)] -= 1
        if not self._holders[id(body)]:
            del self._holders[id(body)]
            self.total_bytes -= len(body)


class _Comparisons:
    """A cache of the last comparisons of two bodies, which it keeps alive."""

    def __init__(self) -> None:
        self._found: dict[
            tuple[int, int], tuple[bytes, bytes, int]
        ] = {}  # by ids, the oldest first
        self._held_bytes = 0

    def find(self, first: bytes, second: bytes) -> int:
        """Return how many bytes at the beginning are equal."""
        key = id(first), id(second)
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = first, second, shared_length(first, second)
            self._held_bytes += len(first) + len(second)
            while self._held_bytes > MAX_COMPARED_BYTES:
                oldest = self._found.pop(next(iter(self._found)))
                self._held_bytes -= len(oldest[0]) + len(oldest[1])
        return known[2]

    def forget(self) -> None:
        """Forget all comparisons."""
        self._found.clear()
        self._held_bytes = 0


class Findings[T]:
    """The results of one owner, in a memory that it shares with other owners."""

    def __init__(self, memory: ConversationMemory | None = None) -> None:
        self._memory = ConversationMemory() if memory is None else memory

    def guess_key(self, body: bytes, *labels: object) -> Key:
        """Return a key that identifies the conversation of a request.

        It consists of ``labels`` and of the beginning of the first message, since one session may have
        several conversations and many sessions share prompt and tools."""
        return (*labels, self._memory.find_opening(body))

    def find(self, key: Key) -> Kept[T] | None:
        """Return the last request of a conversation with its results, or None."""
        return self._memory.find(key, self)

    def shared_length(self, kept: Kept[T], body: bytes) -> int:
        """Return how many bytes at the beginning of an earlier request and this one are equal."""
        return self._memory.shared_length(kept.body, body)

    def keep(self, key: Key, body: bytes, found: T) -> None:
        """Remember a request, with the result of its analysis, as the last one of its conversation."""
        self._memory.keep(key, self, Kept(body, found))


def shared_length(first: bytes, second: bytes) -> int:
    """Return how many bytes at the beginning are equal.

    This is a binary search, so that nearly all is compared at memory speed."""
    low, high = 0, min(len(first), len(second))
    view = memoryview(first)  # whose slices are no copies
    while low < high:
        middle = (low + high + 1) // 2
        if second.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
