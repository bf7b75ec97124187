"""Spool files are used again, and nobody ever sees what was in one before, or will be in it next."""

import fcntl
import os

import pytest

from store.spool import free_files, reader, writer
from store.spool.format import REJECTIONS, Ending, Rejection
from store.spool.reader import InFlightFile
from store.spool.writer import SpoolRun
from tests.store.spool.heads import make_head

SHORT, LONG = b"{}", b'{"long": "%s"}' % (b"x" * 20_000)


@pytest.fixture(autouse=True)
def always_look(monkeypatch):
    monkeypatch.setattr(free_files, "LOOK_AGAIN_S", 0.0)


def begin(run, entry_id, body=LONG):
    return run.create(make_head(entry_id), body)


def finish(file):
    """End a call. Returns the number of its file in the file system."""
    inode = file.path.stat().st_ino
    file.write_chunk(b"response", 1.0)
    file.finish(Ending(outcome="complete"), 2.0)
    return inode


def take_away(root):
    """Do what the recorder does with the calls that it has stored."""
    reader.remove(reader.find_waiting(root))


def list_free(run):
    return sorted((run.path / free_files.FREE).iterdir())


def test_the_file_of_a_stored_call_is_used_again_without_a_trace_of_that_call(root, run):
    inode = finish(begin(run, "1", LONG))
    take_away(root)
    assert finish(begin(run, "2", SHORT)) == inode
    (waiting,) = reader.find_waiting(root)
    exchange = reader.read_exchange(waiting.file)
    assert exchange is not None
    assert (exchange.head.entry_id, exchange.request_body) == ("2", SHORT)
    assert (exchange.response_body, exchange.ending.outcome) == (b"response", "complete")
    assert waiting.path.stat().st_size < len(LONG)


def test_nothing_of_a_call_is_left_in_a_free_file(root, run):
    finish(begin(run, "1"))
    take_away(root)
    (free,) = list_free(run)
    assert free.read_bytes() == b"H"
    assert free.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_being_read_is_not_used_again(root, run):
    file = begin(run, "1")
    (waiting,) = reader.find_in_flight(root)
    with InFlightFile(waiting) as opened:
        finish(file)
        take_away(root)
        finish(begin(run, "2", SHORT))
        found = opened.read()
    assert found is not None
    assert (found[0].head.entry_id, found[0].ending.outcome) == ("1", "complete")
    assert list_free(run) == []


def test_a_call_whose_file_is_used_again_has_ended_for_whoever_comes_late(root, run):
    file = begin(run, "1")
    fd = os.open(file.path, os.O_RDONLY)  # and then another process takes its turn
    path = file.path
    finish(file)
    take_away(root)
    begin(run, "2", SHORT)
    with pytest.raises(FileNotFoundError):
        free_files.keep(fd, path)
    os.close(fd)


def test_a_file_that_is_being_emptied_has_ended(run):
    file = begin(run, "1")
    recorders, readers = (os.open(file.path, os.O_RDWR) for _ in range(2))
    fcntl.flock(recorders, fcntl.LOCK_EX)
    with pytest.raises(FileNotFoundError):
        free_files.keep(readers, file.path)
    with pytest.raises(FileNotFoundError):
        reader.read_beginning(file.path, 100)
    os.close(recorders)
    os.close(readers)


def test_no_more_files_are_kept_than_are_of_use(root, run, monkeypatch):
    monkeypatch.setattr(free_files, "MOST", 2)
    for file in [begin(run, str(number)) for number in range(5)]:
        finish(file)
    take_away(root)
    assert len(list_free(run)) == 2
    assert list(reader.find_waiting(root)) == []


def test_a_kill_while_a_file_is_emptied_or_taken_leaves_no_call(root):
    run = SpoolRun(root)
    finish(begin(run, "1"))
    (waiting,) = reader.find_waiting(root)
    os.truncate(waiting.file, 1)  # stored, and emptied, but not yet in its place
    assert reader.read_exchange(waiting.file) is None
    reader.remove([waiting])
    (free,) = list_free(run)
    free.rename(run.path / "2~org.open")  # taken, but nothing is written yet
    run.close()
    (waiting,) = reader.find_waiting(root)
    assert reader.read_exchange(waiting.file) is None


def test_the_free_files_of_a_run_go_with_it(root):
    run = SpoolRun(root)
    finish(begin(run, "1"))
    take_away(root)
    reader.remove_empty_runs(root)
    assert len(list_free(run)) == 1
    run.close()
    reader.remove_empty_runs(root)
    assert list(root.iterdir()) == []


def test_records_of_rejections_are_deleted(root, run):
    run.write_rejections([Rejection(organization_id="o", proxy_endpoint_id="p", slug="s", bucket="b", hour="h", count=1)])  # fmt: skip
    (waiting,) = reader.find_waiting(root)
    assert waiting.owner == REJECTIONS
    take_away(root)
    assert list_free(run) == []
    assert list(reader.find_waiting(root)) == []


def test_a_file_of_a_run_without_free_files_is_deleted(root, run):
    finish(begin(run, "1"))
    (run.path / free_files.FREE).rmdir()  # as that of a proxy of before
    take_away(root)
    assert {path.name for path in run.path.iterdir()} <= {"lock", "reserve"}
    assert finish(begin(run, "2"))


def test_a_torn_write_to_a_used_file_is_cut_off_at_a_frame_border(root, run, monkeypatch):
    finish(begin(run, "1"))
    take_away(root)
    file = begin(run, "2", SHORT)
    whole = file.path.read_bytes()
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, parts: real(fd, [b"".join(parts)[:20]]))
    with pytest.raises(OSError, match="only 20 of"):
        writer._write_all(file._fd, [b"a chunk that is longer than that"], 32)
    assert file.path.read_bytes() == whole
    monkeypatch.undo()
    finish(file)
    (waiting,) = reader.find_waiting(root)
    exchange = reader.read_exchange(waiting.file)
    assert exchange is not None
    assert exchange.response_body == b"response"
