"""Client connections for tests without sockets: what is written to them is kept."""

import asyncio

from mitmproxy.connection import ConnectionState
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO


class RecordingTransport(asyncio.Transport):
    """Keeps what is written; ``unsent_bytes`` of it have not been taken yet."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.unsent_bytes = 0
        self.was_aborted = False
        self._has_ended = False

    def write(self, data):
        self.written += data

    def write_eof(self):
        self._has_ended = True

    def close(self):
        self._has_ended = True

    def is_closing(self):
        return self._has_ended

    def get_write_buffer_size(self):
        return self.unsent_bytes

    def abort(self):
        self.was_aborted = True


class StandInHandler(ConnectionHandler):
    """The handler of a client connection. ``closed`` lists the connections that it was to close."""

    def __init__(self, here):
        super().__init__(here)
        self.closed = []
        self.client.state = ConnectionState.OPEN
        self.client_transport = self.open(self.client)

    def open(self, connection):
        """Add a connection; return its transport."""
        transport = RecordingTransport()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        writer = asyncio.StreamWriter(
            transport, asyncio.StreamReaderProtocol(reader, loop=loop), reader, loop
        )
        task = loop.create_task(asyncio.Event().wait())
        self.transports[connection] = ConnectionIO(handler=task, reader=reader, writer=writer)
        return transport

    def close_connection(self, connection, half_close=False):
        if not half_close:
            self.closed.append(connection)
        super().close_connection(connection, half_close)

    def close_all(self):
        """End what the event loop would complain about."""
        for io in self.transports.values():
            assert io.handler
            assert io.writer
            io.handler.cancel()
            io.writer.close()

    async def handle_hook(self, hook):
        raise AssertionError(hook)

    def log(self, *_, **__):
        """Say nothing."""
