import errno
import os
from types import SimpleNamespace

import pytest

from runtime.reserve_file import STEP_BYTES, ReserveFile

MB = 1024 * 1024


@pytest.fixture
def disk(monkeypatch):
    """The free space that the file system reports."""
    disk = SimpleNamespace(f_frsize=1, f_blocks=1000 * MB, f_bavail=500 * MB)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    return disk


@pytest.fixture
def path(tmp_path):
    return tmp_path / "reserve"


@pytest.fixture
def reserve(path, disk):
    return ReserveFile(path, 8 * MB)


def full(times):
    """A write that finds the disk full so many times."""
    tries = iter(range(times))

    def write():
        if next(tries, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "written"

    return write


def refuse_to_allocate(monkeypatch, number):
    def refuse(_fd, _offset, _size):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)


def test_it_takes_real_room_that_only_its_owner_can_read(reserve, path):
    reserve.fill()
    status = path.stat()
    assert (status.st_size, status.st_blocks * 512 >= 8 * MB) == (8 * MB, True)
    assert status.st_mode & 0o077 == 0
    assert not reserve.is_tapped


def test_of_a_small_disk_it_takes_a_twentieth(reserve, path, disk):
    disk.f_blocks = 40 * MB
    reserve.fill()
    assert path.stat().st_size == 2 * MB


def test_it_is_not_what_fills_a_disk(reserve, path, disk):
    disk.f_bavail = 15 * MB
    reserve.fill()
    assert not path.exists()


def test_a_write_that_finds_no_room_gets_some_and_is_tried_again(reserve, path):
    reserve.fill()
    assert reserve.retry(10, full(times=3)) == "written"
    assert path.stat().st_size == 8 * MB - 3 * STEP_BYTES
    assert reserve.is_tapped


def test_a_large_write_gets_as_much_as_it_needs(reserve, path):
    reserve.fill()
    reserve.retry(5 * MB, full(times=1))
    assert path.stat().st_size == 3 * MB


@pytest.mark.parametrize("filled", [True, False])
def test_when_nothing_is_left_the_write_fails_as_it_does(reserve, filled):
    if filled:
        reserve.fill()
    with pytest.raises(OSError, match="No space left"):
        reserve.retry(10, full(times=100))


def test_another_failure_takes_nothing(reserve, path):
    reserve.fill()

    def write():
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        reserve.retry(10, write)
    assert path.stat().st_size == 8 * MB


def test_it_is_whole_again_once_there_is_room(reserve, path, disk):
    reserve.fill()
    reserve.retry(10, full(times=2))
    disk.f_bavail = MB
    reserve.fill()
    assert reserve.is_tapped
    disk.f_bavail = 500 * MB
    reserve.fill()
    assert (path.stat().st_size, reserve.is_tapped) == (8 * MB, False)


def test_a_file_that_somebody_removed_ends_the_tries(reserve, path):
    reserve.fill()
    path.unlink()
    with pytest.raises(OSError, match="No space left"):
        reserve.retry(10, full(times=100))


def test_a_quota_that_leaves_no_room_for_it_is_no_error(reserve, path, monkeypatch):
    refuse_to_allocate(monkeypatch, errno.EDQUOT)
    reserve.fill()
    reserve.fill()
    assert (path.stat().st_size, reserve.is_tapped) == (0, False)


def test_where_the_system_cannot_allocate_it_is_written(reserve, path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    reserve.fill()
    assert path.stat().st_blocks * 512 >= 8 * MB


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_the_file_system_cannot_allocate_it_is_written(reserve, path, monkeypatch, number):
    refuse_to_allocate(monkeypatch, number)
    reserve.fill()
    assert path.stat().st_blocks * 512 >= 8 * MB
    assert reserve.retry(10, full(times=8)) == "written"


def test_a_system_that_reads_what_it_allocates_may_do_so(reserve, path, monkeypatch):
    def read(fd, _offset, size):
        os.pread(fd, 1, 0)
        os.ftruncate(fd, size)

    monkeypatch.setattr(os, "posix_fallocate", read)
    reserve.fill()
    assert path.stat().st_size == 8 * MB


def test_that_it_cannot_be_made_is_logged_once_and_no_failure(reserve, monkeypatch, caplog):
    refuse_to_allocate(monkeypatch, errno.EACCES)
    reserve.fill()
    reserve.fill()
    assert caplog.text.count("No room can be held") == 1
    with pytest.raises(OSError, match="No space left"):
        reserve.retry(10, full(times=1))
    refuse_to_allocate(monkeypatch, errno.EOPNOTSUPP)
    reserve.fill()
    assert reserve.retry(10, full(times=1)) == "written"


@pytest.mark.parametrize(("left", "writes"), [(8, 8), (3, 3)])
def test_on_a_full_disk_a_process_uses_what_one_that_was_killed_left(
    reserve, path, disk, left, writes
):
    path.write_bytes(bytes(left * MB))
    disk.f_bavail = 0
    reserve.fill()
    assert reserve.is_tapped == (left < 8)
    assert reserve.retry(10, full(times=writes)) == "written"
    with pytest.raises(OSError, match="No space left"):
        reserve.retry(10, full(times=1))


def test_what_a_killed_process_gave_away_is_taken_again_when_there_is_room(reserve, path):
    path.write_bytes(bytes(3 * MB))
    reserve.fill()
    assert (path.stat().st_size, reserve.is_tapped) == (8 * MB, False)
