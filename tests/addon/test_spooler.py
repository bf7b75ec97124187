import errno
import os
import shutil

import pytest

from store.spool.format import Ending
from tests.addon.spooling import fail, fail_with, read_all


def test_a_full_disk_costs_no_call_and_is_loud(spooler, open_capture, monkeypatch, caplog):
    fail_with(monkeypatch, errno.ENOSPC)
    assert open_capture(spooler) is None
    assert open_capture(spooler) is None
    assert spooler.troubles.calls_not_kept == 2
    assert "No space left" in (spooler.troubles.current or "")
    assert caplog.text.count("IMPAIRED") == 1


def test_logging_works_again_once_the_disk_does(spooler, open_capture, monkeypatch, caplog):
    with monkeypatch.context() as broken:
        fail_with(broken, errno.EIO)
        open_capture(spooler)
    assert open_capture(spooler) is not None
    assert spooler.troubles.current is None
    assert "works again" in caplog.text


def test_a_call_that_ends_while_the_folder_is_read_only_is_handed_over_when_it_no_longer_is(
    spooler, open_capture, monkeypatch, tmp_path
):
    captures = [open_capture(spooler) for _ in range(2)]

    with monkeypatch.context() as broken:
        broken.setattr("store.spool.writer.os.rename", fail(errno.EROFS))
        for capture in captures:
            capture.finish(Ending(outcome="complete"), 1.0)
        spooler.check_disk()
        assert read_all(tmp_path / "spool") == []
        assert "Read-only" in (spooler.troubles.current or "")
    spooler.check_disk()
    assert [each.ending.outcome for each in read_all(tmp_path / "spool")] == ["complete"] * 2
    assert (spooler.troubles.current, spooler.troubles.responses_not_kept) == (None, 0)


def test_below_the_disk_reserve_request_bodies_are_not_kept(
    make_spooler, open_capture, tmp_path, caplog
):
    spooler = make_spooler(10**18)
    spooler.check_disk()
    capture = open_capture(spooler)
    assert capture is not None
    capture.finish(Ending(outcome="complete"), 1.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.request_body is None
    assert exchange.head.request_bytes == 2
    assert spooler.troubles.request_bodies_not_kept == 1
    assert "below the reserve" in (spooler.troubles.current or "")
    assert "IMPAIRED" in caplog.text


class FullDisk:
    """A disk of which all files in the spool together take no more than ``capacity`` bytes."""

    def __init__(self, root, monkeypatch):
        self._root = root
        self._writev = os.writev
        self.capacity = 0
        monkeypatch.setattr("store.spool.writer.os.writev", self._write)

    @property
    def used(self):
        return sum(path.stat().st_size for path in self._root.rglob("*"))

    def _write(self, fd, parts):
        if self.used + sum(len(part) for part in parts) > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._writev(fd, parts)


@pytest.fixture
def full_disk(spooler, tmp_path, monkeypatch):
    disk = FullDisk(tmp_path / "spool", monkeypatch)
    disk.capacity = 10**12
    spooler.check_disk()
    return disk


def test_on_a_full_disk_responses_in_flight_take_the_room_of_the_reserve(
    spooler, open_capture, tmp_path, full_disk
):
    captures = [open_capture(spooler) for _ in range(20)]
    full_disk.capacity = full_disk.used
    for capture in captures:
        capture.write_response_head(200, {}, 1.0)
        for _ in range(10):
            capture.write_chunk(b"x" * 10_000, 2.0)
        capture.finish(Ending(outcome="complete", response_bytes=100_000), 3.0)
    exchanges = read_all(tmp_path / "spool")
    assert [len(exchange.response_body) for exchange in exchanges] == [100_000] * 20
    assert {exchange.ending.response_lost for exchange in exchanges} == {False}
    assert full_disk.used <= full_disk.capacity
    assert spooler.troubles.responses_not_kept == 0


def test_on_a_full_disk_new_calls_are_kept_without_their_request(
    spooler, open_capture, tmp_path, full_disk
):
    full_disk.capacity = full_disk.used
    body = b'{"model":"m"}' + b" " * 9_987
    for _ in range(2):
        open_capture(spooler, body=body).finish(Ending(outcome="complete"), 1.0)
    exchanges = read_all(tmp_path / "spool")
    assert [exchange.request_body for exchange in exchanges] == [None, None]
    assert [exchange.head.request_model for exchange in exchanges] == ["m", "m"]
    assert [exchange.head.request_bytes for exchange in exchanges] == [10_000] * 2
    assert spooler.troubles.request_bodies_not_kept == 2
    assert "request bodies are not kept" in (spooler.troubles.current or "")


def test_when_there_is_room_again_all_is_kept_again(spooler, open_capture, tmp_path, full_disk):
    full_disk.capacity = full_disk.used
    open_capture(spooler, body=b"x" * 10_000).finish(Ending(outcome="complete"), 1.0)
    full_disk.capacity = 10**12
    spooler.check_disk()
    assert spooler.troubles.current is None
    open_capture(spooler, body=b"x").finish(Ending(outcome="complete"), 1.0)
    assert read_all(tmp_path / "spool")[-1].request_body == b"x"
    (reserve,) = (tmp_path / "spool").glob("*/reserve")
    assert reserve.stat().st_size > 10_000_000


def test_when_the_reserve_is_spent_too_the_entry_says_what_is_lost(
    spooler, open_capture, tmp_path, full_disk
):
    capture = open_capture(spooler)
    capture.write_response_head(200, {}, 1.0)
    full_disk.capacity = full_disk.used
    for _ in range(100):
        capture.write_chunk(b"x" * 1_000_000, 2.0)
    capture.finish(Ending(outcome="complete", response_bytes=100_000_000), 3.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert len(exchange.response_body) > 30_000_000
    assert exchange.ending.response_lost
    assert spooler.troubles.responses_not_kept == 1


def test_a_spool_folder_that_was_removed_is_made_again(spooler, open_capture, tmp_path):
    for path in (tmp_path / "spool").rglob("lock"):
        path.unlink()
        path.parent.rmdir()
    capture = open_capture(spooler)
    capture.finish(Ending(outcome="complete"), 1.0)
    assert len(read_all(tmp_path / "spool")) == 1


def test_while_no_calls_come_a_removed_spool_folder_is_no_trouble(spooler, tmp_path):
    spooler.check_disk()
    shutil.rmtree(tmp_path / "spool")
    spooler.check_disk()
    assert spooler.troubles.current is None
    assert len(list((tmp_path / "spool").glob("*/lock"))) == 1


def test_while_no_calls_come_a_trouble_that_passed_is_over(spooler, monkeypatch, caplog):
    with monkeypatch.context() as failing:
        failing.setattr("addon.spooler.os.statvfs", fail(errno.EMFILE))
        spooler.check_disk()
    assert "Too many open files" in (spooler.troubles.current or "")
    spooler.check_disk()
    assert spooler.troubles.current is None
    assert "works again" in caplog.text


def test_while_no_calls_come_a_check_that_can_write_ends_a_trouble_of_writing(
    spooler, open_capture, tmp_path, monkeypatch
):
    with monkeypatch.context() as failing:
        fail_with(failing, errno.EIO)
        assert open_capture(spooler) is None
        spooler.check_disk()
        assert spooler.troubles.current is not None
    spooler.check_disk()
    assert spooler.troubles.current is None
    assert not list((tmp_path / "spool").glob("*/*~*"))


def test_where_no_reserve_can_be_made_the_disk_is_watched_all_the_same(make_spooler, monkeypatch):
    monkeypatch.setattr("runtime.reserve_file.os.posix_fallocate", fail(errno.EACCES))
    spooler = make_spooler(10**18)
    spooler.check_disk()
    assert "below the reserve" in (spooler.troubles.current or "")


def test_where_no_reserve_can_be_made_the_service_is_well(spooler, monkeypatch):
    monkeypatch.setattr("runtime.reserve_file.os.posix_fallocate", fail(errno.EACCES))
    spooler.check_disk()
    assert spooler.troubles.current is None
