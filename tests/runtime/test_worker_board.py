from types import SimpleNamespace

import pytest

from runtime import worker_board
from runtime.worker_board import FRESH_FOR_S, Shared, WorkerBoard

NOW_S = 1000


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock of all workers, which stands still."""
    stopped = SimpleNamespace(monotonic=lambda: NOW_S, monotonic_ns=lambda: NOW_S * 10**9)
    monkeypatch.setattr(worker_board, "time", stopped)


@pytest.fixture
def memory():
    """The descriptor of a board of two workers, which has four rows."""
    return worker_board.create(2)


@pytest.fixture
def boards(memory):
    return [WorkerBoard(memory, row, number=row + 1) for row in range(3)]


def test_amounts_are_added_up_over_all_workers(boards):
    for number, board in enumerate(boards):
        board.put(Shared.CALLS_NOT_KEPT, 10**number)
    boards[1].add(Shared.CALLS_NOT_KEPT, 5)
    assert [board.total(Shared.CALLS_NOT_KEPT) for board in boards] == [116] * 3
    assert [board.of_others(Shared.CALLS_NOT_KEPT) for board in boards] == [115, 101, 16]


def test_another_process_reads_what_is_added_up(boards, memory):
    boards[0].add(Shared.CONNECTIONS_REFUSED, 3)
    boards[2].add(Shared.CONNECTIONS_REFUSED, -1)
    boards[1].add(Shared.LARGE_HEADS_REFUSED, 7)
    assert worker_board.read_total(memory, Shared.CONNECTIONS_REFUSED) == 2


def test_sums_of_addresses_are_apart_from_each_other_and_from_other_limits(boards):
    boards[0].add_for(Shared.BODY_BYTES, "10.0.0.1", 7)
    boards[1].add_for(Shared.BODY_BYTES, "10.0.0.1", 2)
    assert boards[2].of_others_for(Shared.BODY_BYTES, "10.0.0.1") == 9
    assert boards[0].of_others_for(Shared.BODY_BYTES, "10.0.0.1") == 2
    assert boards[2].of_others_for(Shared.BODY_BYTES, "10.0.0.2") == 0
    assert boards[2].of_others_for(Shared.WEB_SLOTS, "10.0.0.1") == 0


def test_nothing_is_counted_for_a_worker_that_has_ended(boards, memory):
    boards[0].add(Shared.WEB_SLOTS, 3)
    boards[0].add_for(Shared.WEB_SLOTS, "10.0.0.1", 3)
    boards[0].put_trouble("the disk is full")
    boards[0].begin_serving()
    worker_board.clear(memory, 0)
    assert boards[1].of_others(Shared.WEB_SLOTS) == 0
    assert boards[1].of_others_for(Shared.WEB_SLOTS, "10.0.0.1") == 0
    assert list(boards[1].troubles_of_others()) == []


def serve(board, connections):
    board.begin_serving()
    board.put(Shared.CONNECTIONS, connections)


def test_another_process_sees_whether_a_worker_accepts_connections(boards, memory):
    assert not worker_board.is_any_serving(memory)
    boards[1].begin_serving()
    assert worker_board.is_any_serving(memory)
    boards[1].end_serving()
    assert not worker_board.is_any_serving(memory)


def test_a_worker_has_most_connections_if_one_that_serves_has_clearly_fewer(boards):
    serve(boards[0], 1)
    assert not boards[0].has_most_connections(), "the others do not serve"
    serve(boards[1], 0)
    assert boards[0].has_most_connections()
    assert not boards[1].has_most_connections()
    serve(boards[1], 80)
    serve(boards[2], 90)
    serve(boards[0], 90)
    assert not boards[0].has_most_connections(), "an eighth is not worth a pause"
    serve(boards[0], 91)
    assert boards[0].has_most_connections()
    boards[1].end_serving()
    assert not boards[0].has_most_connections()


def test_the_troubles_of_other_workers_are_known(boards):
    for board in boards:
        board.begin_serving()
    boards[0].put_trouble("the disk is full: café")
    assert list(boards[1].troubles_of_others()) == ["the disk is full: café"]
    assert list(boards[0].troubles_of_others()) == []
    boards[0].put_trouble(None)
    assert list(boards[1].troubles_of_others()) == []


def test_a_trouble_is_cut_where_it_is_too_long(boards):
    boards[0].begin_serving()
    boards[0].put_trouble("é" * 1000)
    (trouble,) = boards[1].troubles_of_others()
    assert trouble == "é" * 128
    assert boards[1].total(Shared.CONNECTIONS) == 0, "the row behind is not touched"


def test_a_worker_whose_loop_stands_still_is_a_trouble(boards):
    boards[0].begin_serving()
    boards[0].beat(NOW_S - FRESH_FOR_S)
    assert list(boards[1].troubles_of_others()) == []
    boards[0].beat(NOW_S - FRESH_FOR_S - 0.1)
    assert list(boards[1].troubles_of_others()) == ["worker 1 of the proxy does not respond"]
    boards[0].end_serving()
    assert list(boards[1].troubles_of_others()) == [], "it has stopped, and its calls go on"


def test_workers_that_do_not_serve_are_missing(memory):
    old, other, successor = (
        WorkerBoard(memory, row, number) for row, number in enumerate((1, 2, 1))
    )
    assert other.count_missing() == 2
    old.begin_serving()
    other.begin_serving()
    assert other.count_missing() == 0
    successor.begin_serving()
    assert other.count_missing() == 0
    old.end_serving()
    assert other.count_missing() == 0
    other.end_serving()
    assert successor.count_missing() == 1
    assert WorkerBoard.alone().count_missing() == 0, "nobody says how many there are"
