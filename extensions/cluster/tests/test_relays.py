"""A link that the programme breaks is broken, and whole again when it is mended."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from extensions.cluster.tests.relays import Relays


@pytest.fixture
def echo() -> Iterator[int]:
    """Return a port that sends back what it is sent."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(ConnectionResetError):
            while data := connection.recv(1024):
                connection.sendall(data)

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,)).start()

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=listen)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def exchange(connection: socket.socket) -> bytes:
    connection.sendall(b"port 11111")
    return connection.recv(1024)


def test_a_link_is_cut_stalled_and_mended(echo):
    with Relays() as relays:
        relay = relays.add(echo, {b"11111": b"22222"})
        with socket.create_connection(("127.0.0.1", relay.port), timeout=15) as connection:
            assert exchange(connection) == b"port 22222"
            relay.stall()
            connection.sendall(b"late")
            connection.settimeout(0.01)
            with pytest.raises(TimeoutError):
                connection.recv(1024)
            relay.mend()
            connection.settimeout(15)
            assert connection.recv(1024) == b"late"
            relay.cut()
            with pytest.raises(ConnectionResetError):
                connection.recv(1024)
        relay.mend()
        with socket.create_connection(("127.0.0.1", relay.port), timeout=15) as connection:
            assert exchange(connection) == b"port 22222"
