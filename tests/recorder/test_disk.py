import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from recorder.disk import TINY_SHARE, WRITTEN_TIMES, DiskRoom

MB = 1_000_000


@pytest.fixture
def disk(monkeypatch):
    """A disk with 1 GB free, of which half is the reserve."""
    disk = SimpleNamespace(f_bavail=1000 * MB, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    disk.room = DiskRoom(Path("/anywhere"), 500 * MB)
    disk.room.measure()
    return disk


def test_bodies_are_admitted_until_only_the_reserve_would_be_left(disk):
    assert [disk.room.admit(100 * MB) for _ in range(4)] == [True, True, False, False]
    assert disk.room.admit(50 * MB), "a smaller one still fits"


def test_room_that_came_back_is_noticed(disk):
    disk.f_bavail = 100 * MB
    disk.room.measure()
    assert not disk.room.admit(MB)
    disk.f_bavail = 1000 * MB
    disk.room.measure()
    assert disk.room.admit(MB)


def test_below_the_reserve_tiny_bodies_do_not_use_up_what_is_left(disk):
    disk.f_bavail = 400 * MB
    disk.room.measure()
    assert not disk.room.admit(disk.f_bavail // TINY_SHARE)
    for _ in range(10_000):
        largest = disk.f_bavail // TINY_SHARE // WRITTEN_TIMES
        assert disk.room.admit(largest)
        disk.f_bavail -= WRITTEN_TIMES * largest
        disk.room.measure()
    assert disk.f_bavail > 200 * MB
