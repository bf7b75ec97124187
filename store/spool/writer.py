"""Writing of the spool: the folder of one run of a proxy, and the file of one exchange in it."""

import errno
import fcntl
import os
from collections.abc import Buffer, Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from runtime import clock
from runtime.reserve_file import NO_ROOM, STEP_BYTES, ReserveFile
from store.spool.format import (
    CALLS,
    DONE,
    FRAME,
    LOCK,
    OPEN,
    REJECTIONS,
    REPORT,
    RESERVE,
    Ending,
    Rejection,
    RequestHead,
    ResponseHead,
    pack_rejections,
)
from store.spool.free_files import FreeFiles

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
RESERVE_BYTES = 32 * 1024 * 1024  # some hundred responses; the recorder takes them away as they end


class NotHandedOverError(OSError):
    """A whole file could not be renamed. ``SpoolRun.hand_over_late`` tries again."""


class SpoolRun:
    """The folder of one run of a proxy, locked while that process lives."""

    def __init__(self, root: Path, reserve_bytes: int = RESERVE_BYTES) -> None:
        """Create and lock the folder of a run. Raises OSError."""
        run_id = clock.new_id()
        # Locked under a hidden name first: a folder that shows and is not locked is abandoned.
        hidden = root / f".{run_id}"
        hidden.mkdir(parents=True, mode=0o700)
        try:
            self._lock_fd = os.open(hidden / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            hidden.rmdir()
            raise
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.path = hidden.rename(root / run_id)
        except OSError:
            os.close(self._lock_fd)
            (hidden / LOCK).unlink()
            hidden.rmdir()
            raise
        self._folder = str(self.path)
        self._free_files = FreeFiles(self.path)
        self._late: list[str] = []
        self.reserve = ReserveFile(self.path / RESERVE, reserve_bytes)

    def create(self, head: RequestHead, request_body: Buffer) -> "SpoolFile":
        """Create the file of an exchange with head and request, in one write.

        A request with a body is not written into the reserve: try again without the body. Raises OSError;
        no file is left then."""
        mark = head.run_id if head.record in CALLS else REPORT
        run = "" if mark is None else f"~{mark}"
        stem = f"{self._folder}/{head.entry_id}~{head.organization_id}{run}"
        if memoryview(request_body).nbytes:
            return self._make_file(stem, head, request_body)
        return self.reserve.retry(STEP_BYTES, lambda: self._make_file(stem, head, request_body))

    def _make_file(self, stem: str, head: RequestHead, request_body: Buffer) -> "SpoolFile":
        fd = self._free_files.take(stem + OPEN)
        if fd is None:
            fd = os.open(stem + OPEN, _NEW, 0o600)
        return SpoolFile(fd, stem, head, request_body, self.reserve, self._late)

    def hand_over_late(self) -> None:
        """Rename the files that could not be renamed when their exchange ended. Raises OSError."""
        while self._late:
            with suppress(FileNotFoundError):
                os.rename(self._late[-1] + OPEN, self._late[-1] + DONE)  # noqa: PTH104
            self._late.pop()

    def write_rejections(self, rejections: Sequence[Rejection]) -> None:
        """Write a record of rejections.

        Raises OSError; nothing was written then, and the caller must keep the counts."""
        path = self.path / f"{clock.new_id()}~{REJECTIONS}{OPEN}"
        data = pack_rejections(rejections)
        try:
            self.reserve.retry(len(data), lambda: path.write_bytes(data))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        path.rename(path.with_suffix(DONE))

    def try_writing(self) -> None:
        """Create a file with a few bytes and delete it. Raises OSError if no call could be stored.

        If the file is not deleted, the recorder ignores it, since it has no head."""
        path = self.path / f"{clock.new_id()}~probe{OPEN}"
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, (b"probe",), 5)
        finally:
            os.close(fd)
            path.unlink()

    def close(self) -> None:
        """Release the lock. The recorder takes over files that are still open."""
        self.reserve.remove()
        os.close(self._lock_fd)


class SpoolFile:
    """The spool file of one exchange, while the proxy writes it.

    Every method but ``close`` may raise OSError. File names are plain strings, since a Path takes
    longer to make than a file to open."""

    def __init__(
        self,
        fd: int,
        stem: str,
        head: RequestHead,
        request_body: Buffer,
        reserve: ReserveFile,
        late: list[str],
    ) -> None:
        """Write the request to the beginning of the file ``stem`` + ".open".

        ``stem`` is added to ``late`` if the file cannot be renamed at the end. ``reserve`` gives room if
        the disk is full."""
        self._stem = stem
        self._reserve = reserve
        self._late = late
        self._fd = fd
        try:
            payload = orjson.dumps(head)
            body = memoryview(request_body)
            _write_all(
                self._fd,
                (
                    FRAME.pack(b"H", 0, len(payload)) + payload + FRAME.pack(b"Q", 0, body.nbytes),
                    body,
                ),
                2 * FRAME.size + len(payload) + body.nbytes,
            )
        except BaseException:
            self.discard()
            raise

    @property
    def path(self) -> Path:
        """Return the path of the file while it is being written."""
        return Path(self._stem + OPEN)

    def write_response_head(self, head: ResponseHead, elapsed_ms: float) -> None:
        self._write_json(b"R", head, elapsed_ms)

    def write_chunk(self, chunk: bytes, elapsed_ms: float) -> None:
        size = len(chunk)
        self._write((FRAME.pack(b"C", elapsed_ms, size), chunk), FRAME.size + size)

    def finish(self, ending: Ending, elapsed_ms: float) -> None:
        """Write the ending and rename the file for the recorder, even if the ending does not fit.

        Raises NotHandedOverError if renaming failed and ``SpoolRun.hand_over_late`` must try again."""
        try:
            self._write_json(b"E", ending, elapsed_ms)
        finally:
            self.close()
            try:
                os.rename(self._stem + OPEN, self._stem + DONE)  # noqa: PTH104
            except FileNotFoundError:
                raise
            except OSError as error:
                self._late.append(self._stem)
                raise NotHandedOverError(*error.args) from error

    def discard(self) -> None:
        """Delete the file of an exchange that was never forwarded."""
        self.close()
        with suppress(FileNotFoundError):
            os.unlink(self._stem + OPEN)  # noqa: PTH108

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write_json(self, kind: bytes, value: ResponseHead | Ending, elapsed_ms: float) -> None:
        payload = orjson.dumps(value)
        frame = FRAME.pack(kind, elapsed_ms, len(payload)) + payload
        self._write((frame,), len(frame))

    def _write(self, parts: Sequence[Buffer], size: int) -> None:
        try:
            _write_all(self._fd, parts, size)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._reserve.retry(size, lambda: _write_all(self._fd, parts, size))


def _write_all(fd: int, parts: Sequence[Buffer], wanted: int) -> None:
    """Write all of ``parts``, ``wanted`` bytes in total, with one writev.

    A short write means that the disk is full: the torn frame is cut off again, so that a later write
    starts at a frame border. Raises OSError."""
    written = os.writev(fd, parts)
    if written != wanted:
        os.ftruncate(fd, os.lseek(fd, -written, os.SEEK_CUR))
        raise OSError(errno.ENOSPC, f"only {written} of {wanted} bytes could be spooled")
