"""Spool files that are used again.

Creating and deleting a file can take a file system longer than the proxy takes for the whole call:
ext4 without a journal checks each inode that was freed within the last minute, up to a millisecond
for each file. So the recorder empties the file of a call that is stored, and moves it into the
folder ``free`` of its run, from which the proxy takes it for another call.

One byte of the old file is left, which the next request overwrites, because ext4 writes the content
of a file that was emptied to the disk when it is closed. A file that a process reads is not used
again, so that no reader of a call can ever see another one."""

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path

FREE = "free"
MOST = 256
LOOK_AGAIN_S = 0.05


class FreeFiles:
    """The free files of a proxy's run, to be used for new calls."""

    def __init__(self, run: Path) -> None:
        """Create the folder of free files. Raises OSError."""
        self._folder = str(run / FREE)
        (run / FREE).mkdir(mode=0o700)
        self._found: list[str] = []
        self._look_at_s = 0.0

    def take(self, path: str) -> int | None:
        """Rename a free file to ``path`` and return its descriptor for writing, or None if there is none.

        Raises OSError."""
        while self._found or self._look():
            try:
                os.rename(f"{self._folder}/{self._found.pop()}", path)  # noqa: PTH104 - as in SpoolFile
            except FileNotFoundError:
                continue
            try:
                return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            except OSError:
                os.unlink(path)  # noqa: PTH108
                raise
        return None

    def _look(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + LOOK_AGAIN_S
        try:
            self._found = os.listdir(self._folder)  # noqa: PTH208
        except FileNotFoundError:  # somebody removed our folder, which is noticed elsewhere
            return False
        return bool(self._found)


def give_back(paths: Iterable[str]) -> list[str]:
    """Empty spool files of calls and make them free; return the paths for which that was not possible.

    It is not possible if there are enough free files, if a process reads the file, or if the run has no
    folder for them."""
    places: dict[str, list[str]] = {}  # by run: only here are they taken, so one look is enough
    left = []
    for path in paths:
        run = path.rpartition("/")[0]
        if run not in places:
            places[run] = _list_places(f"{run}/{FREE}")
        if places[run] and _make_free(path, places[run][-1]):
            places[run].pop()
        else:
            left.append(path)
    return left


def _list_places(folder: str) -> list[str]:
    """Return the paths in a folder at which files can still be made free, at most ``MOST`` in all."""
    try:
        taken = set(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{number}" for number in range(MOST) if str(number) not in taken]


def _make_free(path: str, place: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 1)
        os.rename(path, place)  # noqa: PTH104
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def keep(fd: int, path: str | os.PathLike[str]) -> None:
    """Protect an opened spool file from being used again until it is closed.

    Raises FileNotFoundError if the file is being emptied, or has another name by now."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileNotFoundError(f"{path} is not there any more") from None
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{path} is not there any more")


def remove_all(run: Path) -> None:
    """Delete the free files of a run that has ended. Raises OSError."""
    folder = run / FREE
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
