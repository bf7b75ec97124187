"""The held response of buffered mode: its chunks, until it is complete or too large."""

MAX_BYTES = 32 * 1024 * 1024
# Small chunks are joined up to this size: so many writes at once would take the event loop.
PIECE_BYTES = 64 * 1024


class HeldResponse:
    """Holds chunks in the order of arrival. They are never all joined, since that would double their
    memory."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []
        self._small: list[bytes] = []
        self._small_bytes = 0

    def add(self, chunk: bytes) -> None:
        """Hold a chunk of the response."""
        self.size += len(chunk)
        self._small.append(chunk)
        self._small_bytes += len(chunk)
        if self._small_bytes >= PIECE_BYTES:
            self._join_small()

    def take(self) -> list[bytes]:
        """Return the held pieces, and hold nothing more."""
        self._join_small()
        pieces, self._pieces, self.size = self._pieces, [], 0
        return pieces

    def _join_small(self) -> None:
        if self._small:
            self._pieces.append(b"".join(self._small))
        self._small, self._small_bytes = [], 0
