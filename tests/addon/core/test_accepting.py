import asyncio
import errno
import socket
import struct
from contextlib import ExitStack

import pytest

from addon.connection_limit import ConnectionLimit
from addon.core import accepting
from addon.core.accepting import Acceptor
from runtime.worker_board import Shared


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
async def start(listener):
    """Starts acceptors, each with a copy of the socket as in a process of its own."""
    acceptors = []

    async def serve(reader, writer):
        await reader.read()
        writer.close()

    def start_one(board, copy=None):
        acceptors.append(
            Acceptor(copy or listener.dup(), board, ConnectionLimit(1, (), board), serve)
        )
        acceptors[-1].start()
        return acceptors[-1]

    yield start_one
    for acceptor in acceptors:
        acceptor.close()


@pytest.fixture
def connect(listener):
    with ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection(listener.getsockname()))


async def wait_until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def test_each_gets_as_many_connections(start, boards, connect):
    for board in boards:
        start(board)
    for count in range(1, 13):
        connect()
        await wait_until(lambda count=count: boards[0].total(Shared.CONNECTIONS) == count)
    assert [board.total(Shared.CONNECTIONS) for board in boards] == [12, 12]
    # Not always six: the one that gave way takes what comes in the instant in which it is back.
    assert 4 <= boards[0].of_others(Shared.CONNECTIONS) <= 8


async def test_what_others_leave_is_accepted_after_a_moment(start, boards, connect):
    start(boards[0])
    boards[1].begin_serving()
    for _ in range(5):
        connect()
    await wait_until(lambda: boards[1].of_others(Shared.CONNECTIONS) == 5)


async def test_a_connection_that_ends_is_counted_no_more(start, boards, connect):
    start(boards[0])
    client = connect()
    await wait_until(lambda: boards[0].total(Shared.CONNECTIONS) == 1)
    client.close()
    await wait_until(lambda: boards[0].total(Shared.CONNECTIONS) == 0)


class FullListener(socket.socket):
    """A socket of a system that has no room for the first connection."""

    tries = 0

    def accept(self):
        self.tries += 1
        if self.tries == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_without_room_it_says_so_and_tries_again(
    start, boards, connect, listener, monkeypatch
):
    monkeypatch.setattr(accepting, "NO_ROOM_S", 0.001)
    reported = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    full = FullListener(fileno=listener.dup().detach())
    start(boards[0], full)
    connect()
    await wait_until(lambda: boards[0].total(Shared.CONNECTIONS) == 1)
    (context,) = reported
    assert context["exception"].errno == errno.EMFILE
    assert context["socket"] is full


async def test_the_last_descriptors_are_for_the_calls_of_those_who_are_there(
    start, boards, connect, monkeypatch
):
    monkeypatch.setattr(accepting, "NO_ROOM_S", 0.001)
    limits = iter([8, 8, 1024])
    monkeypatch.setattr(accepting, "read_limit", lambda: next(limits, 1024))
    said = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    start(boards[0])
    connect()
    await wait_until(lambda: boards[0].total(Shared.CONNECTIONS) == 1)
    assert [context["exception"].errno for context in said] == [errno.EMFILE] * 2


async def test_a_client_that_left_before_it_was_accepted_is_not_served(
    start, boards, connect, monkeypatch
):
    gone = connect()
    gone.sendall(b"GET / HTTP/1.1\r\n\r\n")
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    known = []
    monkeypatch.setattr(ConnectionLimit, "find_client", lambda _self, peer: known.append(peer))
    start(boards[0])
    connect()
    await wait_until(lambda: boards[0].total(Shared.CONNECTIONS) == 1)
    assert len(known) == 1


async def test_those_that_are_served_wait_for_few_new_ones_in_a_turn(start, boards, connect):
    for _ in range(accepting.MOST_IN_TURN * 2):
        connect()
    start(boards[0])._accept()
    assert boards[0].total(Shared.CONNECTIONS) == accepting.MOST_IN_TURN <= 8


async def test_one_that_is_closed_leaves_the_socket_to_the_others(start, boards, connect):
    first, second = map(start, boards)
    second.close()
    second.close()
    for _ in range(3):
        connect()
    await wait_until(lambda: boards[1].of_others(Shared.CONNECTIONS) == 3)
    assert not boards[0].has_most_connections(), "the other does not serve"
    assert first.sockets[0].fileno() >= 0
