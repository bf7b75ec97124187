import pytest

from addon.holdings import MAX_OF_ADDRESS, MAX_OF_ALL, Holdings, WebSlots
from runtime import worker_board
from runtime.worker_board import Shared, WorkerBoard


def make(board):
    return Holdings(board, Shared.WEB_SLOTS, Shared.WEB_SLOTS_OF_NOBODY)


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def holders(request):
    """The holdings of two connections' workers: those of one worker, or of two."""
    fd = worker_board.create(1)
    workers = [make(WorkerBoard(fd, row)) for row in range(request.param)]
    return workers[0], workers[-1]


def test_amounts_are_added_up_over_all_and_by_address(holders):
    first, second = holders
    first.put("one", 5, "10.0.0.1")
    first.put("one", 3, "10.0.0.1")
    second.put("two", 4, "10.0.0.1")
    second.put("three", 2, "10.0.0.2")
    first.put("head", 1, "")
    for holdings in holders:
        assert holdings.total == 10
        assert (holdings.of_address("10.0.0.1"), holdings.of_others("10.0.0.1")) == (7, 2)
        assert holdings.of_others("") == 9


def test_a_connection_may_hold_for_another_address(holders):
    first, second = holders
    first.put("one", 5, "10.0.0.1")
    first.put("one", 4, "10.0.0.2")
    assert (second.of_address("10.0.0.1"), second.of_address("10.0.0.2")) == (0, 4)


def test_what_is_removed_leaves_nothing_behind(holders):
    first, second = holders
    first.put("one", 5, "10.0.0.1")
    first.remove("one")
    first.remove("one")
    assert (second.total, second.of_address("10.0.0.1")) == (0, 0)
    assert not first._by_address
    assert not first._by_connection


@pytest.fixture
def slots(board):
    return WebSlots(board)


def take_all(slots, addresses):
    return [slots.take(f"{address} {n}", address) for address in addresses for n in range(65)]


def test_an_address_has_so_many_slots_and_leaves_those_of_others(slots):
    assert take_all(slots, ["10.0.0.1"]) == [True] * MAX_OF_ADDRESS + [False]
    assert slots.take("another", "10.0.0.2")


def test_there_are_so_many_slots_for_all(slots):
    taken = take_all(slots, [f"10.0.0.{n}" for n in range(10)])
    assert taken.count(True) == MAX_OF_ALL


def test_a_slot_that_is_released_can_be_taken(slots):
    take_all(slots, ["10.0.0.1"])
    slots.release("10.0.0.1 7")
    slots.release("nobody")
    assert slots.take("next", "10.0.0.1")
    assert not slots.take("one more", "10.0.0.1")
