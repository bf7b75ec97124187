"""The memory that request bodies take is limited over all connections.

Message requests are read whole before they are forwarded. Each may have 33 MB, so many at once could
take all the memory there is. Above the limit, large bodies are refused: those that come, and those
that grow. None of them has been forwarded yet, so their clients can send them again.

What is held of responses in buffered mode counts too: where there is no room, they go on live.
"""

import ctypes

# Bodies up to this size find room up to twice the limit.
SMALL_BYTES = 256 * 1024
# So much given back is worth the pause of up to 0.15 ms a MB in which the C library looks for it.
WORTH_TRIMMING_BYTES = 32 * 1024 * 1024

# glibc keeps what was freed in pieces of a read each; other C libraries have no such call.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class BodyMemory:
    """Counts what is held, and says whether more may be."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes: dict[
            str, int
        ] = {}  # by client connection, which has one request at a time
        self.total_bytes = 0
        self._most_bytes = 0  # since memory was last given back

    def has_room(self, declared_bytes: int) -> bool:
        """Return whether a body of this size may begin to come."""
        return self.total_bytes < self._limit_for(declared_bytes)

    def hold(self, client_id: str, held_bytes: int) -> bool:
        """Note how much of a body is held now; return whether it may go on."""
        self.total_bytes += held_bytes - self._held_bytes.get(client_id, 0)
        self._held_bytes[client_id] = held_bytes
        self._most_bytes = max(self._most_bytes, self.total_bytes)
        return self.total_bytes <= self._limit_for(held_bytes)

    def release(self, client_id: str) -> None:
        """Note that the body is gone, if there was one."""
        self.total_bytes -= self._held_bytes.pop(client_id, 0)

    def _limit_for(self, body_bytes: int) -> int:
        return self._limit_bytes * (2 if body_bytes <= SMALL_BYTES else 1)

    def give_back(self) -> bool:
        """Return memory to the system if much is free; return whether that was worth it."""
        if self._most_bytes - self.total_bytes < WORTH_TRIMMING_BYTES:
            return False
        self._most_bytes = self.total_bytes
        if _trim is not None:
            _trim(0)
        return True
