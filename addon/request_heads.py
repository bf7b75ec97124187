"""Bounds on the memory and the time that the heads of requests take.

What is held of them counts with the bodies of requests. ``addon/http1/layer.py`` reports it.
"""

import time
from dataclasses import dataclass

from addon.body_memory import BodyMemory
from runtime.worker_board import Shared, WorkerBoard


@dataclass(slots=True)
class _Awaited:
    since_s: float
    has_begun: bool = False


class RequestHeads:
    """Knows what clients have sent of heads, and since when more is awaited. That is since the
    connection was opened or the head began; between requests nothing is awaited."""

    def __init__(self, memory: BodyMemory, board: WorkerBoard, largest_bytes: int) -> None:
        self.largest_bytes = largest_bytes
        self._memory = memory
        self._board = board
        self._awaited: dict[str, _Awaited] = {}  # by client connection

    def await_first(self, client_id: str) -> None:
        """Note that a connection was opened."""
        self._awaited[client_id] = _Awaited(time.monotonic())

    def hold(self, client_id: str, held_bytes: int) -> bool:
        """Note how much is held that is not dealt with yet; return whether it may be held."""
        if not held_bytes:
            self._memory.release(_key(client_id))
            return True
        return self._memory.hold(_key(client_id), held_bytes)

    def await_rest(self, client_id: str) -> None:
        """Note that a head has begun and that its end has not come yet."""
        self._awaited.setdefault(client_id, _Awaited(time.monotonic())).has_begun = True

    def is_whole(self, client_id: str) -> None:
        """Note that a whole head has come, so that nobody waits for it any more."""
        self._awaited.pop(client_id, None)

    def count_too_large(self) -> None:
        """Note that a head was refused because of its size."""
        self._board.add(Shared.LARGE_HEADS_REFUSED, 1)

    def count_too_slow(self) -> None:
        """Note that a head was refused because it took too long."""
        self._board.add(Shared.SLOW_HEADS_REFUSED, 1)

    def forget(self, client_id: str) -> None:
        """Note that a connection has ended."""
        self._awaited.pop(client_id, None)
        self._memory.release(_key(client_id))

    def take_overdue(self, before_s: float) -> list[tuple[str, bool]]:
        """Return the connections awaited since before then, and whether the head of each has begun.
        Each is returned once."""
        overdue = [
            (client_id, head.has_begun)
            for client_id, head in self._awaited.items()
            if head.since_s < before_s
        ]
        for client_id, _ in overdue:
            del self._awaited[client_id]
        return overdue


def _key(client_id: str) -> str:
    """Return the name under which a head is counted, apart from the body of its request."""
    return f"{client_id} head"
