from store.spool import reader
from store.spool.format import Ending
from store.spool.unrecorded import count_unrecorded
from tests.store.spool.heads import make_head
from tests.store.spool.test_spool import write_exchange


def test_calls_in_flight_and_calls_that_wait_are_counted_until_they_are_recorded(root, run):
    in_flight = write_exchange(run, "0001", run_id="mine")
    write_exchange(run, "0002", run_id="mine").finish(Ending(outcome="complete"), 4.0)
    write_exchange(run, "0003", run_id="other").finish(Ending(outcome="complete"), 4.0)
    write_exchange(run, "0004").finish(Ending(outcome="complete"), 4.0)
    run.create(make_head("0005", run_id="mine", organization_id="others"), b"{}").close()
    assert count_unrecorded(root, "org", "mine") == 2
    reader.remove(reader.find_waiting(root))
    assert count_unrecorded(root, "org", "mine") == 1
    in_flight.discard()
    assert count_unrecorded(root, "org", "mine") == 0


def test_runs_whose_ids_begin_alike_are_told_apart(root, run):
    for number, run_id in enumerate(("a", "a.b", "b.a", "a-1")):
        write_exchange(run, f"{number:04}", run_id=run_id).close()
    assert [count_unrecorded(root, "org", each) for each in ("a", "a.b", "b")] == [1, 1, 0]
    assert {waiting.owner for waiting in reader.find_waiting(root)} <= {"org"}


def test_a_file_that_was_set_aside_is_not_counted(tmp_path):
    (tmp_path / "unreadable").mkdir()
    (tmp_path / "unreadable" / "0003~org~mine.done").write_bytes(b"")
    assert count_unrecorded(tmp_path, "org", "mine") == 0
    assert count_unrecorded(tmp_path / "none", "org", "mine") == 0
