from functools import partial

import pytest

from addon import held_response
from addon.body_memory import BodyMemory
from addon.exchange import Exchange
from addon.held_response import PIECE_BYTES, HeldResponse
from runtime.worker_board import WorkerBoard

MEBI = 1 << 20


@pytest.mark.parametrize("sizes", [[1] * 200_000, [1000] * 300, [MEBI, 1, MEBI], []])
def test_what_is_held_comes_back_whole_in_pieces_of_a_good_size(sizes):
    held = HeldResponse()
    chunks = [bytes([i % 256]) * size for i, size in enumerate(sizes)]
    for chunk in chunks:
        held.add(chunk)
    assert held.size == sum(sizes)
    pieces = held.take()
    assert b"".join(pieces) == b"".join(chunks)
    assert all(len(piece) >= PIECE_BYTES for piece in pieces[:-1])
    assert (held.size, held.take()) == (0, [])


def test_a_large_chunk_is_not_copied():
    held, chunk = HeldResponse(), bytes(MEBI)
    held.add(chunk)
    assert held.take()[0] is chunk


@pytest.fixture
def memory():
    return BodyMemory(100 * MEBI, WorkerBoard.alone())


@pytest.fixture
def buffered(memory):
    return Exchange(is_buffered=True, may_hold=partial(memory.hold, "client"))


def pass_through(exchange, chunks):
    return [exchange.take_chunk(chunk) for chunk in [*chunks, b""]]


def test_a_response_is_held_until_its_end_and_counted_in_the_memory(buffered, memory):
    chunks = [bytes([i]) * MEBI for i in range(10)]
    for chunk in chunks:
        assert buffered.take_chunk(chunk) == []
    assert memory.total_bytes == 10 * MEBI
    assert buffered.take_chunk(b"") == chunks


def test_a_response_above_the_bound_goes_on_live_with_what_is_held(buffered, memory):
    chunks = [bytes([i]) * MEBI for i in range(40)]
    passed = pass_through(buffered, chunks)
    held = held_response.MAX_BYTES // MEBI
    assert passed == [[]] * held + [chunks[: held + 1]] + [
        [each] for each in chunks[held + 1 :]
    ] + [[]]
    assert memory.total_bytes == 0
    assert buffered.response_bytes == 40 * MEBI


def test_a_response_that_finds_no_memory_goes_on_live(buffered, memory):
    memory.hold("another", 98 * MEBI)
    chunks = [bytes([i]) * MEBI for i in range(4)]
    assert pass_through(buffered, chunks) == [[], [], chunks[:3], [chunks[3]], []]
    assert memory.total_bytes == 98 * MEBI
