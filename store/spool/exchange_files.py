"""The spool: one append-only file per exchange, the seam between proxy and recorder.

It is the maildir idea: create, append, rename when done. A proxy run owns a folder of its own below
``data/spool`` and holds an exclusive lock on it; the lock's being free means that run is gone, and
what it left unfinished is the recorder's to finish.

    data/spool/<run id>/lock
    data/spool/<run id>/reserve                              room for when the disk is full
    data/spool/<run id>/<entry id>~<organization id>.open    being written
    data/spool/<run id>/<entry id>~<organization id>.done    complete, never touched again

A file is a sequence of frames: kind (1 byte), milliseconds since the request was complete (a double),
length of the payload (4 bytes), payload. Kinds, in order:

    H  JSON  RequestHead        R  JSON  ResponseHead
    Q  bytes the request body   C  bytes of the response, one frame per chunk
                                E  JSON  Ending

H and Q are one write, before the upstream connection is opened; each C is written before its chunk
is passed on. A file without a whole Q was therefore never forwarded and is no entry. Only what this
module names is ever written: no header goes in that is not a field here, so no credential can.

When the disk is full, what must not be lost takes the room of the reserve: all but request bodies.

Rejections of our own rate limit travel the same way, as ``<id>~rejections.done`` with one J frame.
"""

import errno
import fcntl
import logging
import os
import stat
import struct
from collections.abc import Buffer, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from metering.request_facts import RequestFacts
from runtime import clock
from runtime.reserve_file import NO_ROOM, STEP_BYTES, ReserveFile

logger = logging.getLogger(__name__)

FRAME = struct.Struct(">cdI")
_skipped: set[Path] = set()
OPEN, DONE, UNREADABLE = ".open", ".done", "unreadable"
LOCK, RESERVE = "lock", "reserve"
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
MAX_HEAD_BYTES = 256 * 1024  # the headers of a request have less
RESERVE_BYTES = 32 * 1024 * 1024  # some hundred responses; the recorder takes them away as they end
REJECTIONS = "rejections"

type TransportOutcome = Literal[
    "complete",
    "upstream_interrupted",
    "upstream_unreachable",
    "upstream_timeout",
    "client_disconnected",
    "proxy_restarted",
]
type RequestBodyKept = Literal["whole", "omitted"]


class SpoolError(Exception):
    """A spool file that cannot be read as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What the proxy knows of a request before it is forwarded. Header values are as received,
    None when absent. ``request_bytes`` is the size of the body on the wire, ``path_query`` the path
    below the slug with its query, without credentials.

    New fields go to the end and have a default: the files of an older proxy lack them."""

    entry_id: str
    created_at: str
    organization_id: str
    proxy_endpoint_id: str
    slug: str
    metadata_only: bool
    request_bytes: int | None
    request_body: RequestBodyKept
    credential_hmac: str | None = None
    content_encoding: str | None = None
    user_agent: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    retry_count: str | None = None
    path_query: str | None = None
    api_version: str | None = None
    betas: str | None = None
    request_model: str | None = None
    max_tokens: int | None = None
    message_count: int | None = None
    tool_count: int | None = None
    run_id: str | None = None

    @property
    def facts(self) -> RequestFacts:
        """Return what the proxy read in a request body that is not kept."""
        return RequestFacts(
            model=self.request_model,
            max_tokens=self.max_tokens,
            message_count=self.message_count,
            tool_count=self.tool_count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    status_code: int
    content_type: str | None = None
    content_encoding: str | None = None
    upstream_request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the exchange went on the wire; the recorder refines it by what the body says.
    ``response_lost`` is true when chunks were forwarded but could not be written to the spool."""

    outcome: TransportOutcome
    error_type: str | None = None
    duration_ms: float | None = None
    proxy_overhead_ms: float | None = None
    response_bytes: int = 0
    response_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Requests of one slug that our own limit refused within one clock hour (``YYYY-MM-DDTHH``)."""

    organization_id: str
    proxy_endpoint_id: str
    slug: str
    bucket: str
    hour: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledExchange:
    """A spool file read back. ``response`` and ``ttfb_ms`` are None when upstream sent no head;
    bodies are as on the wire, still content-encoded. ``request_body`` is None when it was not kept."""

    head: RequestHead
    request_body: bytes | None
    response: ResponseHead | None
    ttfb_ms: float | None
    response_body: bytes
    last_byte_ms: float | None
    ending: Ending


class SpoolRun:
    """The folder of one run of a proxy, locked for as long as that process lives."""

    def __init__(self, root: Path) -> None:
        """Raises OSError when the folder cannot be made or locked."""
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
        self.reserve = ReserveFile(self.path / RESERVE, RESERVE_BYTES)

    def create(self, head: RequestHead, request_body: Buffer) -> "SpoolFile":
        """Write head and request in one go. Raises OSError, and then leaves no file behind.

        A request with a body gets nothing of the reserve: try again without."""
        path = self.path / f"{head.entry_id}~{head.organization_id}{OPEN}"
        if memoryview(request_body).nbytes:
            return SpoolFile(path, head, request_body, self.reserve)
        return self.reserve.retry(
            STEP_BYTES, lambda: SpoolFile(path, head, request_body, self.reserve)
        )

    def write_rejections(self, rejections: Sequence[Rejection]) -> None:
        """Raises OSError; then nothing was written and the caller still owns the counts."""
        path = self.path / f"{clock.new_id()}~{REJECTIONS}{OPEN}"
        payload = orjson.dumps(list(rejections))
        data = FRAME.pack(b"J", 0, len(payload)) + payload
        try:
            self.reserve.retry(len(data), lambda: path.write_bytes(data))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        path.rename(path.with_suffix(DONE))

    def try_writing(self) -> None:
        """Make a file with a few bytes and remove it. Raises OSError where no call could be kept.

        A file that stays behind has no head, so it is no exchange to the recorder."""
        path = self.path / f"{clock.new_id()}~probe{OPEN}"
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, (b"probe",), 5)
        finally:
            os.close(fd)
            path.unlink()

    def close(self) -> None:
        """Give the folder up. Files still open in it are the recorder's from here on."""
        self.reserve.remove()
        os.close(self._lock_fd)


class SpoolFile:
    """One exchange being written. Every method but ``close`` may raise OSError."""

    def __init__(
        self, path: Path, head: RequestHead, request_body: Buffer, reserve: ReserveFile
    ) -> None:
        self.path = path
        self._reserve = reserve
        self._fd = os.open(
            path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
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

    def write_response_head(self, head: ResponseHead, elapsed_ms: float) -> None:
        self._write_json(b"R", head, elapsed_ms)

    def write_chunk(self, chunk: bytes, elapsed_ms: float) -> None:
        size = len(chunk)
        self._write((FRAME.pack(b"C", elapsed_ms, size), chunk), FRAME.size + size)

    def finish(self, ending: Ending, elapsed_ms: float) -> None:
        """Write the ending and hand the file to the recorder, even if the ending does not fit."""
        try:
            self._write_json(b"E", ending, elapsed_ms)
        finally:
            self.close()
            self.path.rename(self.path.with_suffix(DONE))

    def discard(self) -> None:
        """Forget an exchange that was never forwarded."""
        self.close()
        self.path.unlink(missing_ok=True)

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
    """One writev of so many bytes. A short write means that the disk is full: the torn frame is cut
    off again, so that a later write starts at a frame border. Raises OSError."""
    written = os.writev(fd, parts)
    if written != wanted:
        os.ftruncate(fd, os.fstat(fd).st_size - written)
        raise OSError(errno.ENOSPC, f"only {written} of {wanted} bytes could be spooled")


class Waiting(NamedTuple):
    """A spool file ready to be read, recognised by its name alone. (A tuple with a plain text, since
    there is one for every call, and a Path takes longer to make than a file to open.)"""

    file: str
    entry_id: str
    owner: str  # an organization id, or REJECTIONS

    @property
    def path(self) -> Path:
        return Path(self.file)


def find_waiting(root: Path) -> Iterator[Waiting]:
    """Files that no proxy writes any more, oldest arrival first within each run.

    Those that end in ``.open`` are given only once the lock of their run is free."""
    for run in sorted(_folders(root)):
        names = sorted(_names(run))
        unfinished = any(name.endswith(OPEN) for name in names) and _is_abandoned(run)
        if unfinished:
            # The proxy may have renamed files between the listing and its end: look again.
            names = sorted(_names(run))
        endings = (DONE, OPEN) if unfinished else (DONE,)
        folder = str(run)
        for name in names:
            if name.endswith(endings):
                entry_id, separator, owner = name.rpartition(".")[0].partition("~")
                if separator:
                    yield Waiting(f"{folder}/{name}", entry_id, owner)


def remove_empty_runs(root: Path) -> None:
    """Remove the folders of runs that are gone and have nothing left in them, and the reserves of
    those that have."""
    for run in _folders(root):
        names = set(_names(run))
        has_no_files = names <= {LOCK, RESERVE}
        if (RESERVE in names or (names and has_no_files)) and _is_abandoned(run):
            (run / RESERVE).unlink(missing_ok=True)
            if has_no_files:
                (run / LOCK).unlink(missing_ok=True)
        if not _names(run):
            try:
                run.rmdir()
            except OSError:
                continue  # not empty after all: a file came in between, the next round sees it


def has_live_runs(root: Path) -> bool:
    """Does a proxy still hold the lock of its run?"""
    return any((run / LOCK).exists() and not _is_abandoned(run) for run in _folders(root))


def remove(waiting: Waiting) -> None:
    """Delete what is stored, or was never forwarded."""
    with suppress(FileNotFoundError):
        os.unlink(waiting.file)  # noqa: PTH108 - see Waiting


def set_aside(root: Path, path: Path) -> Path:
    """Move a file that cannot be read out of the way, kept for a person to look at."""
    folder = root / UNREADABLE
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / path.name
    if os.path.lexists(target):
        target = folder / f"{path.name}.{clock.new_id()}"
    return path.rename(target)


def count_unreadable(root: Path) -> int:
    return len(_names(root / UNREADABLE))


def read_rejections(path: str | os.PathLike[str]) -> list[Rejection]:
    """Raises SpoolError when the file is not a whole J frame, OSError when it cannot be read."""
    frames = list(_frames(_read(path)))
    if len(frames) != 1 or frames[0].kind != b"J" or frames[0].torn:
        raise SpoolError(f"{_name(path)}: not a record of rejections")
    try:
        return [Rejection(**item) for item in orjson.loads(frames[0].payload)]
    except (ValueError, TypeError) as error:
        raise SpoolError(f"{_name(path)}: {error}") from error


def read_exchange(path: str | os.PathLike[str]) -> SpooledExchange | None:
    """Read one exchange back; None for one that was never forwarded.

    A file that simply stops (its proxy was killed) is no error: everything that came is given, with
    the outcome ``proxy_restarted``. One that was handed over without its ending had no room for it:
    it went to its end on the wire, but what of its answer is missing here nobody knows. Raises
    SpoolError for what is not a spool file at all, OSError when it cannot be read."""
    return parse_exchange(_read(path), _name(path), handed_over=_name(path).endswith(DONE))


def parse_exchange(
    data: bytes, name: str = "spool file", *, handed_over: bool = False
) -> SpooledExchange | None:
    """What ``read_exchange`` does, for bytes. Once the request is whole there is an entry, and
    whatever follows that makes no sense (a torn frame, blocks of zeros after a power cut) ends it."""
    frames = _frames(data)
    head = _parse_request_head(next(frames, None), name)
    request = next(frames, None)
    if head is None or request is None or request.torn:
        return None
    if request.kind != b"Q":
        raise SpoolError(f"{name}: no request after its head")
    answer = _Answer()
    for frame in frames:
        if not answer.take(frame):
            break
    body = b"".join(answer.chunks)
    return SpooledExchange(
        head=head,
        request_body=request.payload if head.request_body == "whole" else None,
        response=answer.head,
        ttfb_ms=answer.ttfb_ms,
        response_body=body,
        last_byte_ms=answer.last_byte_ms,
        ending=answer.ending
        or Ending(
            outcome="complete" if handed_over else "proxy_restarted",
            duration_ms=answer.last_byte_ms,
            response_bytes=len(body),
            response_lost=handed_over,
        ),
    )


def read_head(path: str | os.PathLike[str]) -> RequestHead | None:
    """Return the head of a request, None when it is not whole. Raises SpoolError, OSError."""
    fd = os.open(path, READ_FLAGS)
    try:
        start = os.read(fd, MAX_HEAD_BYTES)
    finally:
        os.close(fd)
    return _parse_request_head(next(_frames(start), None), _name(path))


def _parse_request_head(frame: "_Frame | None", name: str) -> RequestHead | None:
    if frame is None:
        return None
    if frame.kind != b"H":
        raise SpoolError(f"{name}: not a spool file")
    if frame.torn:
        return None
    try:
        return RequestHead(**orjson.loads(frame.payload))
    except (ValueError, TypeError) as error:
        raise SpoolError(f"{name}: {error}") from error


@dataclass(slots=True)
class _Answer:
    """What has been read of the answer so far."""

    head: ResponseHead | None = None
    ttfb_ms: float | None = None
    last_byte_ms: float | None = None
    chunks: list[bytes] = field(default_factory=list)
    ending: Ending | None = None

    def take(self, frame: "_Frame") -> bool:
        """Returns whether more may follow. Of a torn frame only a chunk has any use."""
        if frame.kind == b"C":
            self.chunks.append(frame.payload)
            self.last_byte_ms = frame.elapsed_ms
            return not frame.torn
        if frame.torn:
            return False
        try:
            if frame.kind == b"R":
                self.head = ResponseHead(**orjson.loads(frame.payload))
                self.ttfb_ms = self.last_byte_ms = frame.elapsed_ms
            elif frame.kind == b"E":
                self.ending = Ending(**orjson.loads(frame.payload))
        except (ValueError, TypeError):
            return False
        return frame.kind == b"R"


class _Frame(NamedTuple):
    kind: bytes
    elapsed_ms: float
    payload: bytes
    torn: bool


def _frames(data: bytes) -> Iterator[_Frame]:
    start = FRAME.size
    while start <= len(data):
        kind, elapsed_ms, length = FRAME.unpack_from(data, start - FRAME.size)
        payload = data[start : start + length]
        yield _Frame(kind, elapsed_ms, payload, len(payload) < length)
        start += len(payload) + FRAME.size


def _read(path: str | os.PathLike[str]) -> bytes:
    """Return what is in a regular file, at half the cost of ``Path.read_bytes``, because there is no
    file object.

    A pipe, a device or a link is not one of ours, and might never end. Raises SpoolError, OSError."""
    fd = os.open(path, READ_FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SpoolError(f"{_name(path)}: not a regular file")
        parts = [os.read(fd, os.fstat(fd).st_size)]
        while more := os.read(fd, 1024 * 1024):  # hardly ever: up to 2 GB one read takes it whole
            parts.append(more)
        return b"".join(parts)  # of one part that is the part itself
    finally:
        os.close(fd)


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
    """Nothing in it can be listed. One such folder must not keep the others waiting; it is reported
    once, unless it is merely gone."""
    if not isinstance(error, FileNotFoundError) and folder not in _skipped:
        _skipped.add(folder)
        logger.error("Calls in %s cannot be recorded: %s", folder, error.strerror)
    return []


def _is_abandoned(run: Path) -> bool:
    """Is the lock of this run free? A folder without a lock file belongs to nobody yet or any more;
    a proxy makes the lock before its first file, so one with files but no lock is abandoned."""
    try:
        fd = os.open(run / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return any(name != LOCK for name in _names(run))
    except OSError as error:  # nobody can tell, so it is left alone
        _skip(run / LOCK, error)
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
