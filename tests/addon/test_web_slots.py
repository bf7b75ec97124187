import pytest

from addon.web_slots import MAX_OF_ADDRESS, MAX_OF_ALL, WebSlots


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
