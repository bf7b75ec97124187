"""Reading of the spool: waiting files of all runs, calls in flight, and removal of stored files."""

import fcntl
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from runtime import clock
from store.spool import free_files
from store.spool.format import (
    DONE,
    EMPTY_REQUEST,
    FRAME,
    LOCK,
    OPEN,
    REJECTIONS,
    REPORT,
    RESERVE,
    UNREADABLE,
    Rejection,
    ResponseHead,
    SpooledExchange,
    SpoolError,
    measure_frame,
    measure_request,
    parse_exchange,
    parse_rejections,
    parse_response,
)
from store.spool.free_files import FREE

logger = logging.getLogger(__name__)

READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_skipped: set[Path] = set()


class Waiting(NamedTuple):
    """A spool file that is ready to be read, with the values in its name.

    This is a tuple with a plain string, because there is one for every call, and a Path takes longer to
    make than a file to open."""

    file: str
    entry_id: str
    owner: str  # an organization id, or REJECTIONS

    @property
    def path(self) -> Path:
        return Path(self.file)

    @property
    def is_report(self) -> bool:
        """Return whether the file has a response that reports usage of other calls."""
        return self.file.rpartition(".")[0].endswith(f"~{REPORT}")


def find_waiting(root: Path) -> Iterator[Waiting]:
    """Yield the files that no proxy writes any more, oldest arrival first.

    Files ending in ``.open`` are included only if the lock of their run is free."""
    found: list[tuple[str, str]] = []
    for run in _folders(root):
        names = _names(run)
        unfinished = any(name.endswith(OPEN) for name in names) and _is_abandoned(run)
        if unfinished:
            # The proxy may have renamed files between the listing and its end: look again.
            names = _names(run)
        endings = (DONE, OPEN) if unfinished else (DONE,)
        folder = str(run)
        found += [(name, folder) for name in names if name.endswith(endings)]
    # Calls of one conversation may have gone through several workers, each with a run of its own.
    for name, folder in sorted(found):
        entry_id, separator, owner = name.rpartition(".")[0].partition("~")
        if separator:
            yield Waiting(f"{folder}/{name}", entry_id, owner.partition("~")[0])


def find_in_flight(root: Path) -> Iterator[Waiting]:
    """Yield the files that a proxy is still writing, oldest arrival first within each run."""
    for run in sorted(_folders(root)):
        names = sorted(name for name in _names(run) if name.endswith(OPEN))
        if not names or _is_abandoned(run):
            continue
        for name in names:
            entry_id, separator, owner = name.rpartition(".")[0].partition("~")
            owner, _, mark = owner.partition("~")
            if separator and owner != REJECTIONS and mark != REPORT:
                yield Waiting(f"{run}/{name}", entry_id, owner)


class InFlightFile:
    """The file of an exchange in flight. It stays readable even if it is removed meanwhile."""

    def __init__(self, file: Waiting) -> None:
        """Open the file. Raises OSError if the exchange has ended."""
        self._path = file.file
        self._fd = os.open(self._path, READ_FLAGS)
        try:
            free_files.keep(self._fd, self._path)
        except OSError:
            os.close(self._fd)
            raise

        self._position: int | None = None  # behind the frames of the response that were read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def has_ended(self) -> bool:
        """Return whether the exchange has ended: the file was renamed or deleted."""
        return not os.path.lexists(self._path)

    def read(self) -> tuple[SpooledExchange, int] | None:
        """Return the exchange as far as it is written, and the size in bytes of its request in the file.

        None if the request is not whole yet. Raises SpoolError, OSError."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        data = _read_open(self._fd, self._path)
        exchange = parse_exchange(data, _name(self._path))
        return None if exchange is None else (exchange, measure_request(data))

    def read_more(self) -> tuple[ResponseHead | None, bytes]:
        """Return what was added to the response since the last call: the head or None, and body bytes.

        The head is returned once. The request is not read. Raises OSError."""
        if self._position is None:
            self._position = self._find_response()
        if self._position is None:
            return None, b""
        data = os.pread(self._fd, max(self.size - self._position, 0), self._position)
        head, body, size = parse_response(data)
        self._position += size
        return head, body

    def _find_response(self) -> int | None:
        """Return the position of the response in the file, or None if the request is not whole yet."""
        try:
            head = measure_frame(os.pread(self._fd, FRAME.size, 0))
            start = head + measure_frame(os.pread(self._fd, FRAME.size, head))
        except SpoolError:
            return None
        return start if start <= self.size else None


def remove_empty_runs(root: Path) -> None:
    """Remove the empty folders of ended runs, and the reserves and free files of all ended runs."""
    for run in _folders(root):
        names = set(_names(run))
        has_no_files = names <= {LOCK, RESERVE, FREE}
        if (names & {RESERVE, FREE} or (names and has_no_files)) and _is_abandoned(run):
            (run / RESERVE).unlink(missing_ok=True)
            free_files.remove_all(run)
            if has_no_files:
                (run / LOCK).unlink(missing_ok=True)
        if not _names(run):
            try:
                run.rmdir()
            except OSError:
                continue  # not empty after all: a file came in between, the next round sees it


def has_live_runs(root: Path) -> bool:
    """Return whether a proxy still holds the lock of its run."""
    return any((run / LOCK).exists() and not _is_abandoned(run) for run in _folders(root))


def remove(gone: Iterable[Waiting]) -> None:
    """Remove files that are stored or were never forwarded; files of calls are made free, if possible."""
    calls: list[str] = []
    rejections: list[str] = []
    for waiting in gone:
        (rejections if waiting.owner == REJECTIONS else calls).append(waiting.file)
    for path in (*rejections, *free_files.give_back(calls)):
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - see Waiting


def set_aside(root: Path, path: Path) -> Path:
    """Move a file that cannot be read into the folder ``UNREADABLE``, for a person to look at.

    Returns its new path."""
    folder = root / UNREADABLE
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / path.name
    if os.path.lexists(target):
        target = folder / f"{path.name}.{clock.new_id()}"
    return path.rename(target)


def count_unreadable(root: Path) -> int:
    return len(_names(root / UNREADABLE))


def read_rejections(path: str | os.PathLike[str]) -> list[Rejection]:
    """Return the counts of refused requests in a spool file.

    Raises SpoolError if it is not such a file, OSError if it cannot be read."""
    return parse_rejections(read_file(path), _name(path))


def read_exchange(path: str | os.PathLike[str]) -> SpooledExchange | None:
    """Return the exchange in a spool file, or None if its request was never forwarded.

    If the file ends early because its proxy was killed, the result has what is there, with the outcome
    ``proxy_restarted``. If a ``.done`` file has no ending, there was no room for it: the exchange was
    complete on the wire, but an unknown part of its response is missing. Raises SpoolError if the file
    is not valid, OSError if it cannot be read."""
    return parse_exchange(read_file(path), _name(path), handed_over=_name(path).endswith(DONE))


def read_beginning(path: str | os.PathLike[str], most_bytes: int) -> SpooledExchange | None:
    """Return an exchange in flight without its request body, with up to ``most_bytes`` of response frames.

    None if the response has not begun. Raises SpoolError, OSError."""
    fd = os.open(path, READ_FLAGS)
    try:
        free_files.keep(fd, path)
        head = os.pread(fd, measure_frame(os.pread(fd, FRAME.size, 0)), 0)
        request_size = measure_frame(os.pread(fd, FRAME.size, len(head)))
        response = os.pread(fd, most_bytes, len(head) + request_size)
    finally:
        os.close(fd)
    if not response:
        return None
    exchange = parse_exchange(head + EMPTY_REQUEST + response, _name(path))
    if exchange is not None:
        exchange.request_body = None
    return exchange


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file, at half the cost of ``Path.read_bytes``.

    Raises SpoolError for a pipe, device or link, which might never end, and OSError."""
    fd = os.open(path, READ_FLAGS)
    try:
        return _read_open(fd, path)
    finally:
        os.close(fd)


def _read_open(fd: int, path: str | os.PathLike[str]) -> bytes:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise SpoolError(f"{_name(path)}: not a regular file")
    data = os.read(fd, status.st_size + 1)
    if len(data) == status.st_size:  # so that was the end
        return data
    parts = [data]
    while more := os.read(fd, 1024 * 1024):  # rarely: one read returns up to 2 GB
        parts.append(more)
    return b"".join(parts)


def _name(path: str | os.PathLike[str]) -> str:
    return os.fspath(path).rpartition("/")[2]


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            names = [
                e.name
                for e in entries
                if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")
            ]
    except OSError as error:
        return _skip(root, error)
    return [root / name for name in names if name != UNREADABLE]


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError as error:
        return _skip(folder, error)


def _skip(folder: Path, error: OSError) -> list[Any]:
    """Return an empty list for a folder that cannot be listed, and log the error once.

    Such a folder must not keep the others waiting. It is not logged if it does not exist."""
    if not isinstance(error, FileNotFoundError) and folder not in _skipped:
        _skipped.add(folder)
        logger.error("Calls in %s cannot be recorded: %s", folder, error.strerror)
    return []


def _is_abandoned(run: Path) -> bool:
    """Return whether the lock of this run is free.

    A proxy creates the lock before its first file, so a folder with files but no lock is abandoned; one
    with neither may belong to a proxy that is just starting."""
    try:
        fd = os.open(run / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return any(name != LOCK for name in _names(run))
    except OSError as error:  # its state is unknown, so it is left alone
        _skip(run / LOCK, error)
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
