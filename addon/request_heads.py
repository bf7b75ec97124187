"""Limits on the memory and the time that the heads of requests need.

Held bytes of heads count with the bodies of requests. ``addon/http1/layer.py`` reports them."""

import time
from dataclasses import dataclass

from addon.body_memory import BodyMemory
from runtime.worker_board import Shared, WorkerBoard


@dataclass(slots=True)
class _Awaited:
    since_s: float
    has_begun: bool = False


class RequestHeads:
    """The held bytes of request heads, and the time since which the rest of a head is awaited.

    That is the time at which the connection was opened or the head began; between requests nothing is
    awaited."""

    def __init__(self, memory: BodyMemory, board: WorkerBoard, largest_bytes: int) -> None:
        self.largest_bytes = largest_bytes
        self._memory = memory
        self._board = board
        self._awaited: dict[str, _Awaited] = {}  # by client connection

    def await_first(self, client_id: str) -> None:
        """Note that a connection was opened and its first head is awaited."""
        self._awaited[client_id] = _Awaited(time.monotonic())

    def hold(self, client_id: str, held_bytes: int) -> bool:
        """Set the number of held bytes that are not handled yet; return whether they may be held."""
        if not held_bytes:
            self._memory.release(_key(client_id))
            return True
        return self._memory.hold(_key(client_id), held_bytes)

    def await_rest(self, client_id: str) -> None:
        """Note that a head has begun and its rest is awaited."""
        self._awaited.setdefault(client_id, _Awaited(time.monotonic())).has_begun = True

    def is_whole(self, client_id: str) -> None:
        """Note that a head is complete, and nothing more of it is awaited."""
        self._awaited.pop(client_id, None)

    def count_too_large(self) -> None:
        """Count a head that was refused because of its size."""
        self._board.add(Shared.LARGE_HEADS_REFUSED, 1)

    def count_too_slow(self) -> None:
        """Count a head that was refused because it took too long."""
        self._board.add(Shared.SLOW_HEADS_REFUSED, 1)

    def forget(self, client_id: str) -> None:
        """Drop all that is known of a connection, since it has ended."""
        self._awaited.pop(client_id, None)
        self._memory.release(_key(client_id))

    def take_overdue(self, before_s: float) -> list[tuple[str, bool]]:
        """Return (connection id, whether its head has begun) for heads awaited since before ``before_s``.

        They are awaited no longer, so each is returned once."""
        overdue = [
            (client_id, head.has_begun)
            for client_id, head in self._awaited.items()
            if head.since_s < before_s
        ]
        for client_id, _ in overdue:
            del self._awaited[client_id]
        return overdue


def _key(client_id: str) -> str:
    """Return the key for a head's bytes in ``BodyMemory``, different from that of the request's body."""
    return f"{client_id} head"
