"""Bytes of a client that are not dealt with yet, and reasons to read no more from it."""

from h11._receivebuffer import ReceiveBuffer
from mitmproxy.proxy.server import ConnectionHandler


class ClientInput:
    """Holds the bytes of a client connection, and what whoever reads from it has to know."""

    __slots__ = (
        *("awaits_hook", "buffer", "is_postponed", "is_refused", "left_bytes"),
        "waits_for_turn",
    )

    def __init__(self) -> None:
        self.buffer = ReceiveBuffer()
        self.awaits_hook = False
        """A hook is awaited, and what comes waits for it."""
        self.waits_for_turn = False
        """A next request is there, which is dealt with in the next turn of the event loop."""
        self.is_postponed = False
        """The bytes here take long to read, and others who sent such bytes come first."""
        self.is_refused = False
        """The last response was sent: what still comes is thrown away."""
        self.left_bytes = 0
        """The bytes that are still to come of a body that is held and whose length is known."""

    def forget(self) -> None:
        """Throw away what has come."""
        self.buffer.maybe_extract_at_most(len(self.buffer))
        self.left_bytes = 0

    def refuse(self) -> None:
        """Throw away what has come and what still comes."""
        self.is_refused = True
        self.forget()

    def take_all(self) -> bytes:
        """Return all that has come, and forget it."""
        return bytes(self.buffer.maybe_extract_at_most(len(self.buffer)) or b"")


def find(handler: ConnectionHandler) -> ClientInput | None:
    """Return what the layer of a connection holds of its client, None once it has ended."""
    held: ClientInput | None = getattr(handler.layer, "input", None)
    return held
