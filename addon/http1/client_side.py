"""The side of the client: what has come on its connection, its call, and how the connection ends."""

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
"""Of what is sent in one write. To copy more than so much costs more than to write again."""


class State(enum.Enum):
    """The states of a client connection, by what happens to what the client sends."""

    HEAD = enum.auto()
    BODY = enum.auto()
    WAIT = enum.auto()
    DONE = enum.auto()


@dataclass(slots=True, eq=False)
class ClientInput:
    """Holds the bytes of a client connection, and what whoever reads from it has to know."""

    buffer: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    awaits_hook: bool = False
    """A hook is awaited, and what comes waits for it."""
    waits_for_turn: bool = False
    """A next request is there, which is dealt with in the next turn of the event loop."""
    is_postponed: bool = False
    """The bytes here take long to read, and others who sent such bytes come first."""
    is_refused: bool = False
    """The last response was sent: what still comes is thrown away."""
    left_bytes: int = 0
    """The bytes that are still to come of a body that is held and whose length is known."""

    def forget(self) -> None:
        """Throw away what has come."""
        self.take_all()
        self.left_bytes = 0

    def refuse(self) -> None:
        """Throw away what has come and what still comes."""
        self.is_refused = True
        self.forget()

    def take_all(self) -> bytes:
        """Return all that has come, and forget it."""
        return bytes(self.buffer.maybe_extract_at_most(len(self.buffer)) or b"")


def find_input(handler: ConnectionHandler) -> ClientInput | None:
    """Return what the layer of a connection holds of its client, None once it has ended."""
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
        """From the head of its request until its response was sent, or it failed."""

    def hold(self, held_bytes: int) -> bool:
        """Note how much has come that is not dealt with; return whether it may be held."""
        return self.heads.hold(self.connection.id, held_bytes)

    @property
    def has_left(self) -> bool:
        """Return whether nothing more comes: its end is known, also where the event of it is to come."""
        return not self.connection.state & ConnectionState.CAN_READ

    @property
    def can_write(self) -> bool:
        """Return whether the client can still be sent anything."""
        return bool(self.connection.state & ConnectionState.CAN_WRITE)

    def send(self, parts: Iterable[bytes]) -> Commands:
        """Send parts of a response, small ones together."""
        for data in join_small(parts):
            yield commands.SendData(self.connection, data)

    def close(self) -> Commands:
        """Close the connection once what was sent has been written, unless it is closed."""
        self.state = State.DONE
        if self.connection.state is not ConnectionState.CLOSED:
            yield commands.CloseConnection(self.connection)

    def linger(self) -> Commands:
        """Close our side only, and throw away what still comes: to close all of a connection with bytes
        unread would reset it, and with it what the client has not read of its response."""
        self.state = State.DONE
        self.input.refuse()
        self.hold(0)
        # Until its client closes too, or for as long as a head may take.
        self.heads.await_rest(self.connection.id)
        yield commands.CloseTcpConnection(self.connection, half_close=True)

    def send_last(self, raw: bytes) -> Commands:
        """Send the last response of the connection."""
        yield commands.SendData(self.connection, raw)
        yield from self.linger()


def join_small(parts: Iterable[bytes]) -> list[bytes]:
    """Return what is to be written at a time of these parts, without empty ones."""
    joined: list[bytes] = []
    for part in parts:
        if joined and len(joined[-1]) + len(part) <= LARGEST_JOINED_BYTES:
            joined[-1] += part
        elif part:
            joined.append(part)
    return joined
