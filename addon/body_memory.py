"""The limit on the memory for bodies, over all connections of all workers together.

Message requests are read whole before they are forwarded. Each may have 33 MB, so many at once could
take all memory. Above the limit, large bodies are refused, both new ones and those that grow. None of
them has been forwarded yet, so their clients can send them again.

Responses held in buffered mode count too: if there is no room for one, it is passed on live instead."""

import ctypes

from addon.holdings import Holdings
from runtime.worker_board import Shared, WorkerBoard

# Bodies up to this size find room up to twice the limit.
SMALL_BYTES = 256 * 1024
# So much given back is worth the pause of up to 0.15 ms a MB in which the C library looks for it.
WORTH_TRIMMING_BYTES = 32 * 1024 * 1024

# glibc keeps what was freed in pieces of a read each; other C libraries have no such call.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class BodyMemory:
    """Counts the bytes of held bodies by client connection, each of which has one request at a time.

    One client address may use half of the memory, or three quarters while no other uses any, so that
    there is always room for another client. A single body may use all of it."""

    def __init__(self, limit_bytes: int, board: WorkerBoard) -> None:
        self._limit_bytes = limit_bytes
        self._held = Holdings(board, Shared.BODY_BYTES, Shared.BODY_BYTES_OF_NOBODY)
        self._most_bytes = 0  # of this worker, since memory was last given back

    @property
    def total_bytes(self) -> int:
        """Return the number of bytes held by all workers together."""
        return self._held.total

    def has_room(self, declared_bytes: int, address: str = "") -> bool:
        """Return whether a body of ``declared_bytes`` from a client address may begin."""
        limit = self._limit_for(declared_bytes)
        return self.total_bytes < limit and (
            not self._held.of_address(address)
            or self._held.of_address(address) < self._share_of(address, limit)
        )

    def hold(self, client_id: str, held_bytes: int, address: str = "") -> bool:
        """Set the bytes held of a connection's body; return whether the body may grow to that.

        Bytes with the address ``""`` count in the total only."""
        self._held.put(client_id, held_bytes, address)
        self._most_bytes = max(self._most_bytes, self._held.own_total)
        limit, own_bytes = self._limit_for(held_bytes), self._held.of_address(address)
        return self.total_bytes <= limit and (
            own_bytes == held_bytes or own_bytes <= self._share_of(address, limit)
        )

    def release(self, client_id: str) -> None:
        """Remove the bytes of a connection's body, if there are any."""
        self._held.remove(client_id)

    def _share_of(self, address: str, limit: int) -> int:
        if not address:
            return limit
        return limit // 2 if self._held.of_others(address) else limit * 3 // 4

    def _limit_for(self, body_bytes: int) -> int:
        return self._limit_bytes * (2 if body_bytes <= SMALL_BYTES else 1)

    def give_back(self) -> bool:
        """Return freed memory to the system if it is much; return whether it was."""
        if self._most_bytes - self._held.own_total < WORTH_TRIMMING_BYTES:
            return False
        self._most_bytes = self._held.own_total
        if _trim is not None:
            _trim(0)
        return True
