"""A transport that sends all data written in one iteration of the event loop together.

Uvicorn writes the head and the body of a response separately. Each write wakes the process at the
other end, which then has only half of a response, and takes the processor from this one."""

import asyncio
from typing import Any, cast

MAX_HELD_BYTES = 64 << 10
LINGER_S = 15.0  # for the other end to take what is left, once the connection is closed


class JoinedWrites:
    """A transport that wraps another one. Attributes that it does not have are those of the other one."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data in the next iteration of the event loop, or at once if much is held."""
        if not self._held:
            asyncio.get_running_loop().call_soon(self.flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:  # whoever writes has to be told when that is too much
            self.flush()

    def flush(self) -> None:
        """Write held data now."""
        if self._held:
            data = b"".join(self._held)
            self._held, self._held_bytes = [], 0
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection. Data that the peer does not read in time is discarded."""
        self.flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)
