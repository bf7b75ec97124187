"""A replacement for the function of the HTTP/1 core that reads bodies.

* What a client sends after its last response is thrown away unread.
* A read of very many chunks waits while other such reads have just taken the event loop, whatever
  connection they came on (``chunked.py``).
* A client whose body is not one is told so before its connection is closed.
* How much is left of a body that is held is noted, so that more of it is read at once.
"""

from collections.abc import Callable, Iterable, Iterator
from weakref import WeakKeyDictionary, WeakSet

from h11._readers import ContentLengthReader
from mitmproxy.connection import Connection
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import _http1

from addon.core import chunked, request_reading
from addon.core.read_policy import ReadPolicy

# Clients whose read waits for others that were as costly. Nothing more is read from them meanwhile.
postponed: WeakSet[Connection] = WeakSet()
# The bytes that are still to come of a body whose length its client said, and which is held.
left_bytes: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()

type BodyReader = Callable[[_http1.Http1Connection, events.Event], Iterator[commands.Command]]


def read_in_turn(original: BodyReader, _policy: ReadPolicy) -> BodyReader:
    """Return an ``Http1Connection.read_body`` that puts off costly reads and drops refused bodies."""

    def read_body(self: _http1.Http1Connection, event: events.Event) -> Iterator[commands.Command]:
        if isinstance(event, events.ConnectionClosed):
            postponed.discard(self.conn)
        elif self.conn in request_reading.refused:
            postponed.discard(self.conn)
            request_reading.throw_away(self)
            return iter(())
        elif isinstance(self, _http1.Http1Server):
            return _read_request_body(self, event, original)
        return original(self, event)

    return read_body


def _read_request_body(
    self: _http1.Http1Server, event: events.Event, original: BodyReader
) -> Iterator[commands.Command]:
    is_wakeup = isinstance(event, events.Wakeup)
    if is_wakeup is not (self.conn in postponed):
        return  # it waits, or has ended while it did
    postponed.discard(self.conn)
    wait_s = chunked.rest.owed_s() if _is_costly(self) else 0.0
    if wait_s:
        postponed.add(self.conn)
        yield commands.RequestWakeup(wait_s)
        return
    yield from _tell_fault(self, original(self, events.DataReceived(self.conn, b"")))
    _note_left(self)
    if is_wakeup:
        chunked.rest.take_s()  # nobody else does after a wakeup


def _is_costly(self: _http1.Http1Server) -> bool:
    return (
        isinstance(self.body_reader, chunked.ChunkedReader)
        and self.buf._data.count(b"\r\n") > 2 * chunked.USUAL_CHUNKS
    )


def _note_left(self: _http1.Http1Server) -> None:
    reader = self.body_reader
    is_held = self.request is not None and not self.request.stream
    if is_held and isinstance(reader, ContentLengthReader) and reader._remaining:
        left_bytes[self.conn] = reader._remaining
    else:
        left_bytes.pop(self.conn, None)


def _tell_fault(
    self: _http1.Http1Server, done: Iterable[commands.Command]
) -> Iterator[commands.Command]:
    """Yield what mitmproxy does about a fault within a body, with a 400 before it closes the connection."""
    for command in done:
        if (
            isinstance(command, commands.CloseConnection)
            and self.state == self.read_body
            and self.response is None
        ):
            refusal = request_reading.make_error_response(400, "HTTP/1 protocol error")
            yield commands.SendData(self.conn, refusal)
        yield command
