from addon.body_memory import SMALL_BYTES, WORTH_TRIMMING_BYTES, BodyMemory
from runtime.worker_board import WorkerBoard

MEBI = 1 << 20


def test_bodies_may_grow_up_to_the_limit_over_all_connections():
    memory = BodyMemory(4 * MEBI, WorkerBoard.alone())
    assert memory.hold("a", 2 * MEBI)
    assert memory.hold("b", 2 * MEBI)
    assert not memory.hold("b", 2 * MEBI + 1)


def test_growing_is_not_counted_twice():
    memory = BodyMemory(4 * MEBI, WorkerBoard.alone())
    for held in range(MEBI, 4 * MEBI + 1, MEBI):
        assert memory.hold("a", held)
    assert memory.total_bytes == 4 * MEBI


def test_what_is_released_makes_room():
    memory = BodyMemory(4 * MEBI, WorkerBoard.alone())
    memory.hold("a", 4 * MEBI)
    assert not memory.has_room(2 * MEBI)
    memory.release("a")
    memory.release("a")
    assert memory.has_room(2 * MEBI)
    assert memory.total_bytes == 0


def test_small_bodies_find_room_in_a_full_memory():
    memory = BodyMemory(4 * MEBI, WorkerBoard.alone())
    memory.hold("a", 5 * MEBI)
    assert memory.has_room(SMALL_BYTES)
    assert memory.hold("b", SMALL_BYTES)
    assert not memory.has_room(SMALL_BYTES + 1)
    assert not memory.hold("b", SMALL_BYTES + 1)


def test_very_many_small_bodies_find_an_end_too():
    memory = BodyMemory(4 * MEBI, WorkerBoard.alone())
    memory.hold("a", 8 * MEBI)
    assert not memory.has_room(0)
    assert not memory.hold("b", 1)


def test_one_address_leaves_room_for_others_to_begin_with():
    memory = BodyMemory(40 * MEBI, WorkerBoard.alone())
    for number in range(3):
        assert memory.hold(f"a {number}", 10 * MEBI, "10.0.0.1")
    assert not memory.has_room(MEBI, "10.0.0.1")
    assert memory.has_room(MEBI, "10.0.0.2")
    assert not memory.hold("a 3", MEBI, "10.0.0.1")
    memory.release("a 3")
    assert memory.hold("b", 10 * MEBI, "10.0.0.2")


def test_beside_others_one_address_has_half():
    memory = BodyMemory(40 * MEBI, WorkerBoard.alone())
    assert memory.hold("b", 1, "10.0.0.2")
    assert memory.hold("a 1", 10 * MEBI, "10.0.0.1")
    assert memory.hold("a 2", 10 * MEBI, "10.0.0.1")
    assert not memory.has_room(MEBI, "10.0.0.1")
    assert not memory.hold("a 2", 10 * MEBI + 1, "10.0.0.1")


def test_one_body_may_be_larger_than_the_share_of_an_address():
    memory = BodyMemory(40 * MEBI, WorkerBoard.alone())
    memory.hold("b", 1, "10.0.0.2")
    assert memory.has_room(33 * MEBI, "10.0.0.1")
    assert memory.hold("a", 33 * MEBI, "10.0.0.1")
    assert not memory.hold("a", 40 * MEBI, "10.0.0.1")


def test_heads_of_no_address_take_nobodys_share():
    memory = BodyMemory(40 * MEBI, WorkerBoard.alone())
    memory.hold("a head", 1)
    for number in range(3):
        assert memory.hold(f"a {number}", 10 * MEBI, "10.0.0.1")


def test_memory_is_given_back_once_after_much_was_released():
    memory = BodyMemory(512 * MEBI, WorkerBoard.alone())
    memory.hold("a", WORTH_TRIMMING_BYTES)
    assert not memory.give_back()
    memory.release("a")
    assert memory.give_back()
    assert not memory.give_back()
