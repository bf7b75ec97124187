"""Shipping the spool of a proxy node: each finished exchange becomes an entry of the log.

A file is removed some seconds after the server has acknowledged its entry, and only if the same server
still accepts writes. A server that has restarted or replaced another one may lack the last moments, so
what was shipped then is shipped again; recorders recognise an entry by its id. Until it is removed, a
shipped file is

data/spool/<run id>/<entry id>~<organization id>.sent

(or ``.open.sent`` for an exchange that its proxy did not end), which also tells the next shipper, if
this one was killed, what to ship again."""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import redis

from extensions.cluster import log, server
from extensions.cluster.keys import PROOF
from extensions.cluster.log import LoggedFile
from store.spool import format as spool_format, reader
from store.spool.format import DONE, OPEN, REJECTIONS, Rejection, SpoolError
from store.spool.reader import Waiting

logger = logging.getLogger(__name__)

SENT = ".sent"
REMEMBERED_S, FORGET_S = 5.0, 0.5
ROUND_S = 1.0
BATCH_FILES, BATCH_BYTES = 200, 8 << 20


@dataclass(frozen=True, slots=True)
class _Sent:
    file: str
    at_s: float


class Shipper:
    """Ships the files in a spool. ``clock_s`` is a monotonic clock."""

    def __init__(self, root: Path, client: server.Client, clock_s: Callable[[], float]) -> None:
        self._root = root
        self._client = client
        self._clock_s = clock_s
        self._watch = server.ServerWatch(client, clock_s)
        self._identity: server.Identity | None = None
        self._sent: deque[_Sent] = deque()
        self._forgot_at_s = -FORGET_S
        self._unread: set[str] = set()
        self._refusal: redis.ResponseError | None = None
        self._recall()

    def run_round(self) -> tuple[int, int]:
        """Ship files for about a second; return the numbers of files shipped and of those that still wait.

        Raises redis.RedisError; then unacknowledged files are shipped again."""
        self._check_identity()
        waiting = list(reader.find_waiting(self._root))
        self._refusal = None
        shipped = 0
        done = 0
        ends_s = self._clock_s() + ROUND_S
        for batch in _divide(waiting):
            shipped += self._ship(batch)
            done += len(batch)
            if self._clock_s() >= ends_s:
                break
        self._forget()
        if self._refusal is not None:
            raise self._refusal
        return shipped, len(waiting) - done

    def disconnect(self) -> None:
        """Close the connection and forget the server's identity, since the next server may be another."""
        self._client.close()
        self._watch.forget()

    def _check_identity(self) -> None:
        found = self._watch.identify()
        if found.role != "master":
            self._client.close()
            raise redis.ReadOnlyError(f"the server is a {found.role}, not a primary")
        if self._identity is not None and found != self._identity:
            logger.warning("another Redis server answers: what was shipped last is shipped again")
            self._recall()
        self._identity = found

    def _ship(self, batch: Sequence[Waiting]) -> int:
        pipeline = self._client.pipeline(transaction=False)
        shipped: list[tuple[Waiting, int]] = []  # with the number of entries of each
        for waiting in batch:
            try:
                files = list(_read(waiting))
            except FileNotFoundError:
                continue
            except OSError as error:  # of this file alone: it is tried again, and the others go on
                if waiting.file not in self._unread:
                    logger.error("A spool file waits, since it cannot be read: %s", error)  # noqa: TRY400
                    self._unread.add(waiting.file)
                continue
            except (SpoolError, ValueError) as error:
                kept = reader.set_aside(self._root, waiting.path)
                logger.error("A spool file cannot be shipped (%s); it is kept as %s", error, kept)  # noqa: TRY400
                continue
            for bucket, file in files:
                pipeline.xadd(log.stream_name(bucket), log.encode(file))
            if files:
                shipped.append((waiting, len(files)))
            else:
                reader.remove([waiting])  # never forwarded
        results = iter(pipeline.execute(raise_on_error=False))
        taken = [
            each for each, entries in shipped if self._is_taken(list(islice(results, entries)))
        ]
        now_s = self._clock_s()
        for waiting in taken:
            target = waiting.file.removesuffix(DONE) + SENT
            os.rename(waiting.file, target)  # noqa: PTH104 - see Waiting
            self._sent.append(_Sent(target, now_s))
        return len(taken)

    def _is_taken(self, results: Sequence[object]) -> bool:
        """Return whether the server has accepted an entry of a file.

        If the key of the stream has another type, the file waits, and others are shipped. Raises
        redis.RedisError for errors that concern all files."""
        errors = [each for each in results if isinstance(each, Exception)]
        for error in errors:
            if not isinstance(error, redis.ResponseError) or not server.is_wrong_type(error):
                raise error
            self._refusal = error
        return len(errors) < len(results)

    def _forget(self) -> None:
        """Remove files shipped a while ago, if the server still accepts a write.

        A server that is cut off from its replicas and about to be replaced refuses writes if it is
        configured to (``min-replicas-to-write``)."""
        now_s = self._clock_s()
        limit_s = now_s - REMEMBERED_S
        if not self._sent or self._sent[0].at_s > limit_s or now_s < self._forgot_at_s + FORGET_S:
            return
        self._client.incr(PROOF)
        self._forgot_at_s = now_s
        self._check_identity()  # of the server that took it: the connection may be another one by now
        while self._sent and self._sent[0].at_s <= limit_s:
            with suppress(FileNotFoundError):
                os.unlink(self._sent.popleft().file)  # noqa: PTH108

    def _recall(self) -> None:
        """Make all shipped files that still exist wait again."""
        self._sent.clear()
        for path in self._root.glob(f"*/*{SENT}"):
            is_unfinished = path.stem.endswith(OPEN)
            with suppress(FileNotFoundError):
                path.rename(path.with_suffix("" if is_unfinished else DONE))


def _divide(waiting: Sequence[Waiting]) -> Iterator[Sequence[Waiting]]:
    """Yield files in batches of some megabytes, which a pipeline can hold in memory."""
    batch: list[Waiting] = []
    size = 0
    for each in waiting:
        with suppress(FileNotFoundError):
            size += os.stat(each.file).st_size  # noqa: PTH116
        batch.append(each)
        if size >= BATCH_BYTES or len(batch) == BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read(waiting: Waiting) -> Iterator[tuple[int, LoggedFile]]:
    """Yield the entries of a file with their buckets: one, or one for each organisation with rejections.

    A call that was never forwarded has none. Raises SpoolError, OSError."""
    path = Path(waiting.file)
    if waiting.owner == REJECTIONS:
        yield from _split_rejections(path)
        return
    data = reader.read_file(path)
    if path.suffix == OPEN:
        completed = spool_format.complete(data, path.name)
        if completed is None:
            return
        data = completed
    yield log.find_bucket(waiting.owner), LoggedFile(path.stem + DONE, data)


def _split_rejections(path: Path) -> Iterator[tuple[int, LoggedFile]]:
    """Yield the rejections of each organisation as a file of its own, with its bucket.

    The same file is always divided in the same way, so that rejections shipped twice are counted once."""
    entry_id = path.name.partition("~")[0]
    by_organization: dict[str, list[Rejection]] = {}
    for each in reader.read_rejections(path):
        by_organization.setdefault(each.organization_id, []).append(each)
    for number, (organization_id, theirs) in enumerate(by_organization.items()):
        name = f"{entry_id}-{number}~{REJECTIONS}{DONE}"
        yield (
            log.find_bucket(organization_id),
            LoggedFile(name, spool_format.pack_rejections(theirs)),
        )
