"""A transport that sends what is written in one step of the event loop at once.

Uvicorn writes the head and the body of a response one after the other. Each write wakes the process at the
other end of the connection, which then has half of a response, and takes the processor from this one.
"""

import asyncio
from typing import Any, cast

MAX_HELD_BYTES = 64 << 10
LINGER_S = 15.0  # for the other end to take what is left, once the connection is closed


class JoinedWrites:
    """A transport around another. What a protocol does not ask of this one, it asks of the other."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data, at the latest when the code that does so waits for something."""
        if not self._held:
            asyncio.get_running_loop().call_soon(self.flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:  # whoever writes has to be told when that is too much
            self.flush()

    def flush(self) -> None:
        """Write now what is held."""
        if self._held:
            data = b"".join(self._held)
            self._held, self._held_bytes = [], 0
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection. What the other end does not take soon is thrown away."""
        self.flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)
