"""Copying of databases and files: complete, readable by the owner only, and synced to the disk."""

import errno
import hashlib
import math
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from store import database
from store.spool import free_files

STEP_PAGES = 256  # 1 to 4 MB
BLOCK_BYTES = 1024 * 1024
BUSY_TIMEOUT_S = 10.0

type Progress = Callable[[int, int, int], object]


@dataclass(frozen=True, slots=True)
class Copied:
    """The size in bytes and the SHA-256 of a file that was written."""

    size: int
    sha256: str


class DamagedError(Exception):
    """A database that SQLite finds damaged, or a file whose content is not the expected one."""


def open_file(path: Path) -> int:
    """Open a regular file for reading and return its descriptor.

    Raises OSError, and DamagedError for a link, pipe or other non-file: a link leads elsewhere, and a
    pipe never ends."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, and a socket
            raise DamagedError(f"{path} is not a file") from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise DamagedError(f"{path} is not a file")
    return fd


def copy_database(source: Path, target: Path, progress: Progress = lambda *_: None) -> None:
    """Copy the present state of a database into a new file, by SQLite's online backup.

    The source is read in one transaction, which blocks no writer. Without a transaction SQLite would
    begin again after each commit of another process, and never end under load. Commits of other
    processes stay in the write-ahead log until the copy is made. Raises sqlite3.Error, OSError."""
    _create(target)
    with (
        closing(database.open_readonly(source, busy_timeout_s=BUSY_TIMEOUT_S)) as reading,
        closing(database.open_target(target)) as writing,
        database.snapshot(reading),
    ):
        reading.execute("select count(*) from sqlite_schema").fetchall()  # it begins here
        reading.backup(writing, pages=STEP_PAGES, progress=progress)


def check_database(path: Path, *, quick: bool) -> None:
    """Check the pages of a copied database. Raises DamagedError, or sqlite3.OperationalError if it cannot
    be read."""
    with closing(database.open_copy(path)) as connection:
        try:
            check = "quick_check" if quick else "integrity_check"
            found = [row[0] for row in connection.execute(f"pragma {check}")]
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise DamagedError(str(error)) from error
    if found != ["ok"]:
        raise DamagedError("; ".join(map(str, found[:3])))


def copy_file(source: Path, target: Path, size_limit: float = math.inf) -> Copied:
    """Copy a file, and return its size and SHA-256. Stops after at most one block beyond ``size_limit``.

    Raises DamagedError, OSError."""
    fd = open_file(source)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(fd, "rb", buffering=0) as reading:
        free_files.keep(fd, source)  # as the recorder may use one of the spool again
        _create(target)
        with target.open("r+b", buffering=0) as writing:
            while size <= size_limit and (block := reading.read(BLOCK_BYTES)):
                writing.write(block)
                digest.update(block)
                size += len(block)
            os.fsync(writing.fileno())
    return Copied(size, digest.hexdigest())


def settle(path: Path) -> Copied:
    """Sync a written file to the disk, and return its size and SHA-256. Raises OSError."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        return Copied(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def write_file(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step that survives a loss of power. Raises OSError."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    _create(draft)
    with draft.open("r+b") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    settle_folder(path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, accessible to their owner only. Raises OSError."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def settle_folders(root: Path) -> None:
    """Sync the directory entries of a folder, and of all folders below, to the disk. Raises OSError."""
    for folder, _, _ in root.walk():
        settle_folder(folder)


def settle_folder(path: Path) -> None:
    """Sync the directory entries of a folder to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(PermissionError):  # some file systems refuse it, and need it not
            os.fsync(fd)
    finally:
        os.close(fd)


def _create(path: Path) -> None:
    make_folder(path.parent)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
