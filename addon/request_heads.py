"""The heads of requests are bounded in size, number, memory and time.

Patches of mitmproxy's HTTP/1 core, each held down by a contract test:

* of the requests that one read brought, one is dealt with in a turn of the event loop, and no more is
  read until all are;
* a head is refused that is larger than 256 KB, or for which there is no memory;
* what is held of a head, or of what comes after a request, is told as it grows, so that it is counted
  with the bodies of requests, and how long a head takes can be seen.
"""

import time
from dataclasses import dataclass
from weakref import WeakSet

from h11._receivebuffer import ReceiveBuffer
from mitmproxy.connection import Connection
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import _http1

from addon import errors, mitmproxy_patches
from addon.body_memory import BodyMemory
from addon.errors import Refusal

MAX_HEAD_BYTES = mitmproxy_patches.MAX_HEAD_BYTES

# How a client begins that speaks TLS. It will send nothing more before it has an answer.
TLS_RECORD = b"\x16"

_original_read_headers = _http1.Http1Server.read_headers

# Clients whose next request is there already, and waits for the next turn of the event loop.
waiting_for_turn: WeakSet[Connection] = WeakSet()


@dataclass(slots=True)
class _Awaited:
    since_s: float
    has_begun: bool = False


class RequestHeads:
    """What clients have sent of heads, and since when more is awaited: since the connection was opened
    or the head began. Between requests nothing is awaited."""

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
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
        """Note that a head has begun and is not whole."""
        self._awaited.setdefault(client_id, _Awaited(time.monotonic())).has_begun = True

    def is_whole(self, client_id: str) -> None:
        """Note that a head has come."""
        self._awaited.pop(client_id, None)

    def forget(self, client_id: str) -> None:
        """Note that a connection has ended."""
        self._awaited.pop(client_id, None)
        self._memory.release(_key(client_id))

    def take_overdue(self, before_s: float) -> list[tuple[str, bool]]:
        """Return the connections that have been awaited since before then, and whether their head has
        begun. Each is returned once."""
        overdue = [
            (client_id, head.has_begun)
            for client_id, head in self._awaited.items()
            if head.since_s < before_s
        ]
        for client_id, _ in overdue:
            del self._awaited[client_id]
        return overdue


def patch_core(heads: RequestHeads) -> None:
    """Apply the patch; calling it again changes nothing but ``heads``."""

    def read_headers(self: _http1.Http1Server, event: events.Event) -> layer.CommandGenerator[None]:
        client_id = self.conn.id
        if isinstance(event, events.ConnectionClosed):
            self.buf.maybe_extract_at_most(len(self.buf))  # the core would log it
            heads.forget(client_id)
        elif isinstance(event, events.Wakeup):
            waiting_for_turn.discard(self.conn)
            event = events.DataReceived(self.conn, b"")
        elif self.conn in waiting_for_turn:
            return  # kept for its turn
        elif isinstance(event, events.DataReceived) and not event.data:
            # So the core goes on with what is there already when a request has been dealt with.
            waiting_for_turn.add(self.conn)
            yield commands.RequestWakeup(0)
            return
        stream_id = self.stream_id
        yield from _original_read_headers(self, event)  # type: ignore[arg-type]
        if self.state != self.read_headers or self.stream_id != stream_id:
            heads.is_whole(client_id)
            heads.hold(client_id, len(self.buf))
        elif self.buf:
            heads.await_rest(client_id)
            refusal = _judge(heads, client_id, self.buf)
            if refusal is not None:
                yield from _refuse(self, refusal)

    _http1.Http1Server.read_headers = read_headers  # type: ignore[method-assign]


def _judge(heads: RequestHeads, client_id: str, held: ReceiveBuffer) -> Refusal | None:
    held_bytes = len(held)
    if bytes(held._data[:1]) == TLS_RECORD:
        return errors.protocol_error(400, "This port speaks plain HTTP: use http:// to reach it.")
    if held_bytes > MAX_HEAD_BYTES:
        return errors.protocol_error(431, "The request head is too large.")
    return None if heads.hold(client_id, held_bytes) else errors.memory_full()


def _refuse(self: _http1.Http1Server, refusal: Refusal) -> layer.CommandGenerator[None]:
    yield commands.SendData(
        self.conn, mitmproxy_patches.assemble(mitmproxy_patches.to_response(refusal))
    )
    yield commands.CloseConnection(self.conn)
    self.state = self.done


def _key(client_id: str) -> str:
    """The body of its request is counted apart."""
    return f"{client_id} head"
