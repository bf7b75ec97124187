"""The client's side: the received data of its connection, its call, and the end of the connection."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from h11._receivebuffer import ReceiveBuffer
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy import commands
from mitmproxy.proxy.server import ConnectionHandler

from addon.http1.call import Call
from addon.http1.upstream import Commands
from addon.request_heads import RequestHeads

LARGEST_JOINED_BYTES = 64 * 1024
"""The maximum size of parts that are joined to one write: copying more costs more than a second write."""


class State(enum.Enum):
    """The states of a client connection, by how data from the client is handled."""

    HEAD = enum.auto()
    BODY = enum.auto()
    WAIT = enum.auto()
    DONE = enum.auto()


@dataclass(slots=True, eq=False)
class ClientInput:
    """Holds received data of a client connection, and the flags that its reader has to know."""

    buffer: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    awaits_hook: bool = False
    """A hook is awaited, so received data is kept until it has finished."""
    waits_for_turn: bool = False
    """The next request was received, and is handled in the next iteration of the event loop."""
    is_postponed: bool = False
    """The data here is costly to read, and other clients with such data go first."""
    is_refused: bool = False
    """The last response was sent, so received data is discarded."""
    left_bytes: int = 0
    """The number of bytes still to be received of a held body of known length, otherwise 0."""

    def forget(self) -> None:
        """Discard received data."""
        self.take_all()
        self.left_bytes = 0

    def refuse(self) -> None:
        """Discard received data, and all that is still received."""
        self.is_refused = True
        self.forget()

    def take_all(self) -> bytes:
        """Return the received data, and forget it."""
        return bytes(self.buffer.maybe_extract_at_most(len(self.buffer)) or b"")


def find_input(handler: ConnectionHandler) -> ClientInput | None:
    """Return the ``ClientInput`` of a connection's layer, None once the connection has ended."""
    held: ClientInput | None = getattr(handler.layer, "input", None)
    return held


class ClientSide:
    """The client connection of a layer, which has one call at a time."""

    __slots__ = ("call", "connection", "heads", "input", "state")

    def __init__(self, connection: Client, heads: RequestHeads) -> None:
        self.connection = connection
        self.heads = heads
        self.input = ClientInput()
        self.state = State.HEAD
        self.call: Call | None = None
        """The current call, from the head of its request until its response was sent or it failed."""

    def hold(self, held_bytes: int) -> bool:
        """Set the number of bytes that were received and not handled; return whether they may be held."""
        return self.heads.hold(self.connection.id, held_bytes)

    @property
    def has_left(self) -> bool:
        """Return whether the client sends no more, even if the event of that is still to come."""
        return not self.connection.state & ConnectionState.CAN_READ

    @property
    def can_write(self) -> bool:
        """Return whether data can still be sent to the client."""
        return bool(self.connection.state & ConnectionState.CAN_WRITE)

    def send(self, parts: Iterable[bytes]) -> Commands:
        """Send parts of a response, small ones joined."""
        for data in join_small(parts):
            yield commands.SendData(self.connection, data)

    def close(self) -> Commands:
        """Close the connection once sent data has been written, unless it is closed already."""
        self.state = State.DONE
        if self.connection.state is not ConnectionState.CLOSED:
            yield commands.CloseConnection(self.connection)

    def linger(self) -> Commands:
        """Close our side only, and discard what the client still sends.

        Closing a connection with unread data would reset it, and the client might lose the response."""
        self.state = State.DONE
        self.input.refuse()
        self.hold(0)
        # Until its client closes too, or for as long as a head may take.
        self.heads.await_rest(self.connection.id)
        yield commands.CloseTcpConnection(self.connection, half_close=True)

    def send_last(self, raw: bytes) -> Commands:
        """Send ``raw``, the last response of the connection."""
        yield commands.SendData(self.connection, raw)
        yield from self.linger()


def join_small(parts: Iterable[bytes]) -> list[bytes]:
    """Return the parts to write, without empty ones and with small ones joined."""
    joined: list[bytes] = []
    for part in parts:
        if joined and len(joined[-1]) + len(part) <= LARGEST_JOINED_BYTES:
            joined[-1] += part
        elif part:
            joined.append(part)
    return joined
