import asyncio
import json
import socket
from ipaddress import ip_network

import pytest

from addon import connection_limit
from addon.connection_limit import ConnectionLimit
from addon.core.accepting import Acceptor
from runtime.worker_board import Shared

PROXIES = (ip_network("10.0.0.0/8"),)


@pytest.fixture
def limits(boards):
    """The limits of two workers of one service."""
    return [ConnectionLimit(3, PROXIES, board) for board in boards]


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("127.0.0.1", ""),
        ("127.1.2.3", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("10.1.2.3", ""),
        ("::ffff:10.1.2.3", ""),
        ("", ""),
    ],
)
def test_loopback_and_trusted_proxies_count_for_nobody_and_a_64_for_one(limits, peer, client):
    assert limits[0].find_client(peer) == client


def test_the_limit_holds_over_all_workers_and_for_each_client_apart(limits):
    one, other = limits
    assert [one.enter("a"), other.enter("a"), one.enter("a")] == [True] * 3
    assert [one.enter("a"), other.enter("a")] == [False] * 2
    assert other.enter("b")
    other.leave("a")
    assert one.enter("a")


def test_any_number_is_allowed_to_nobody(limits):
    assert all(limits[0].enter("") for _ in range(100))
    limits[0].leave("")
    assert limits[0].enter("a")


def test_a_client_that_has_gone_leaves_nothing_behind(limits, boards):
    for _ in range(100):
        assert limits[0].enter("a")
        limits[0].leave("a")
    assert not limits[0]._own
    assert boards[1].of_others_for(Shared.CONNECTIONS, "a") == 0


class FromAfar(ConnectionLimit):
    """A limit that takes loopback for a client elsewhere. The moment after which it closes a connection
    ends when a test is over."""

    def __init__(self, *rules):
        super().__init__(*rules)
        self.closing = []

    def find_client(self, peer):
        return peer

    def _close(self, connection):
        self.closing.append(connection)

    def close_all(self):
        for each in self.closing:
            super()._close(each)


@pytest.fixture
def limit(boards):
    """One connection of a client at a time."""
    return FromAfar(1, (), boards[0])


@pytest.fixture
async def connect(boards, limit, monkeypatch):
    """Connects to an acceptor with that limit."""
    monkeypatch.setattr(connection_limit, "LINGER_S", 0)
    clients = []

    async def serve(reader, writer):
        await reader.read()
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = Acceptor(listener, boards[0], limit, serve)
        acceptor.start()

        async def connect():
            clients.append(await asyncio.open_connection(*listener.getsockname()))
            return clients[-1]

        yield connect
        acceptor.close()
    for _, writer in clients:
        writer.close()
    await wait_until(lambda: len(limit.closing) == limit._lingering)
    limit.close_all()
    assert limit._lingering == 0


async def wait_until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def wait_for_connections(board, count):
    await wait_until(lambda: board.total(Shared.CONNECTIONS) == count)


async def test_a_client_reads_why_its_connection_is_refused_and_is_served_when_it_has_room(
    connect, boards, limit, caplog
):
    _, first = await connect()
    await wait_for_connections(boards[0], 1)
    for _ in range(2):
        reader, writer = await connect()
        writer.write(b"POST /proxy/x/v1/messages HTTP/1.1\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 5\r\n" in head
        assert b"\r\nx-taximeter-error: too_many_connections\r\n" in head
        assert b"\r\nconnection: close" in head
        assert json.loads(body)["error"]["type"] == "overloaded_error"
    assert boards[0].total(Shared.CONNECTIONS_REFUSED) == 2
    assert limit._lingering == 2, "closed at once, what was sent would take the response back"
    assert caplog.text.count("127.0.0.1 has 1 connections") == 1
    first.close()
    await wait_for_connections(boards[0], 0)
    await connect()
    await wait_for_connections(boards[0], 1)


async def test_only_some_of_those_turned_away_stay_open_for_a_moment(
    connect, boards, limit, monkeypatch
):
    monkeypatch.setattr(connection_limit, "MOST_LINGERING", 1)
    await connect()
    await wait_for_connections(boards[0], 1)
    for _ in range(3):
        reader, _ = await connect()
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    assert (boards[0].total(Shared.CONNECTIONS), limit._lingering) == (1, 1)
