"""Receiving the log on a recorder node: entries become files of the node's own spool.

A group is one copy of everything; the node reads the buckets of it that it keeps. An entry is
acknowledged once its file and the folder of the file are on the disk, so the log goes on even if the
recorder is down, busy or blocked by one organisation. An entry that is delivered again becomes a file
again; the recorder stores it once, by its id.

An entry is removed from the log when every group has acknowledged it. While a recorder has much to do,
its entries wait in the log, not on the disk of its node."""

import errno
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

import redis

from extensions.cluster import copies, log, reading, server
from extensions.cluster.copies import Copy
from extensions.cluster.keys import COPIES
from extensions.cluster.log import LoggedFile
from extensions.cluster.reading import Entry, Groups
from runtime.files import sync
from runtime.safe_text import terminal_line
from store.spool import reader
from store.spool.format import DONE, UNREADABLE
from store.spool.writer import SpoolRun

logger = logging.getLogger(__name__)

MOST_ENTRIES = 16  # of each stream at once, and fewer where they are large
BATCH_BYTES = 32 << 20
MOST_WAITING = 5000  # files for the recorder
LOOK_S = 0.25
BLOCK_MS = 200
PART = ".part"


class Receiver:
    """Receives the entries of some buckets for one group."""

    def __init__(
        self,
        root: Path,
        client: server.Client,
        copy: Copy,
        buckets: Sequence[int],
        reserve_bytes: int = 0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write files into the spool ``root`` while ``reserve_bytes`` of its disk are free.

        Raises OSError."""
        self._client = client
        self._copy = copy
        self._group = copy.group
        self._reserve_bytes = reserve_bytes
        self._clock_s = clock_s
        self._looked_at_s = -LOOK_S
        self._has_room = True
        self._count = 1
        self._streams = {bucket: log.stream_name(bucket) for bucket in buckets}
        self._own: list[str] = []  # of the buckets that this node keeps
        self._unusable: set[str] = set()
        self._root = root
        for path in root.glob(
            f"*/*{PART}"
        ):  # of one that was killed: what it has is delivered again
            path.unlink()
        self._run = SpoolRun(root, reserve_bytes=0)
        self._watch = server.ServerWatch(client, clock_s)
        self._identity: server.Identity | None = None
        # First what was delivered and not acknowledged, by this process or the one before it.
        self._is_repeating = True
        self._is_behind = True
        self.level_s: float | None = None  # what was on the server then has been received
        self._acknowledged: set[str] = set()
        self._groups: Set[str] = frozenset()

    def run_round(self) -> int:
        """Receive a batch, waiting a moment for it; return its number of entries.

        Raises redis.RedisError and OSError; then unacknowledged entries are delivered again."""
        begun_s = self._clock_s()  # before it is looked which buckets are this node's
        try:
            self._join()
            has_room = self._look_for_room()
            self._is_behind |= not has_room
            return self._receive(begun_s) if has_room else 0
        except (redis.RedisError, OSError):
            self._identity, self._is_repeating, self._is_behind = None, True, True
            raise

    def _receive(self, begun_s: float) -> int:
        batches = reading.read_log(
            self._client,
            self._group,
            self._copy.node,
            # Without buckets it waits for nothing.
            dict.fromkeys(self._own or [COPIES], "0" if self._is_repeating else ">"),
            count=self._count,
            block=None if self._is_repeating else BLOCK_MS,
        )
        self._is_behind = self._is_repeating or any(
            len(entries) >= self._count for _, entries in batches
        )
        if batches:
            self._write_all(batches)
        else:
            self._is_repeating = False
        if not self._is_behind:
            self.level_s = begun_s
        return sum(len(entries) for _, entries in batches)

    def _write_all(self, batches: Sequence[tuple[str, Sequence[Entry]]]) -> None:
        largest = 1
        acknowledged = self._client.pipeline(transaction=False)
        for stream, entries in batches:
            for entry in entries:
                self._write(stream, entry)
                largest = max(largest, entry.size)
            acknowledged.xack(stream, self._group, *(entry.id for entry in entries))
        sync(self._run.path)
        acknowledged.execute()
        self._acknowledged.update(stream for stream, _ in batches)
        self._count = choose_count(self._count, largest, len(batches))

    def _look_for_room(self) -> bool:
        """Return whether the spool may get more files; if not, entries wait on the server.

        Raises OSError if less than the reserve of the disk is free."""
        now_s = self._clock_s()
        if now_s - self._looked_at_s >= LOOK_S:
            self._looked_at_s = now_s
            disk = os.statvfs(self._root)
            if disk.f_bavail * disk.f_frsize < self._reserve_bytes:
                self._looked_at_s = -LOOK_S
                raise OSError(
                    errno.ENOSPC,
                    "less of the disk is free than its reserve: calls wait on the server",
                    str(self._root),
                )
            waiting = sum(1 for _ in reader.find_waiting(self._root))
            self._has_room = waiting < MOST_WAITING
        return self._has_room

    def trim(self) -> int:
        """Remove entries that every group has acknowledged; return how many this group has not.

        The last group to acknowledge an entry removes it, so streams without acknowledgements since
        the last call are skipped, unless the groups have changed. Raises redis.RedisError."""
        (known,) = reading.find_groups(self._client, [COPIES])
        is_new = known.keys() != self._groups
        streams = set(self._own) if is_new else self._acknowledged & set(self._own)
        looked_at = self._own if self._is_behind else sorted(streams)
        found = dict(zip(looked_at, reading.find_groups(self._client, looked_at), strict=True))
        self._trim(
            {
                stream: {name: found[stream][name] for name in known}
                for stream in streams
                if known and known.keys() <= found[stream].keys()
            }
        )
        self._groups = known.keys()
        self._acknowledged.clear()
        ours = [groups[self._group] for groups in found.values() if self._group in groups]
        return sum((each.lag or 0) + each.pending for each in ours)

    def _trim(self, streams: Mapping[str, Groups]) -> None:
        """Remove from each stream the entries that all of its groups have acknowledged."""
        looked_at = [(stream, name) for stream, groups in streams.items() for name in groups]
        pending = iter(reading.find_first_pending(self._client, looked_at))
        pipeline = self._client.pipeline(transaction=False)
        for stream, groups in streams.items():
            # Of each group the first entry that it still needs, or the last it has had.
            ends = [next(pending) or each.last_delivered for each in groups.values()]
            pipeline.xtrim(stream, minid=_first(ends), approximate=False)
        pipeline.execute()

    def find_received(self) -> frozenset[int]:
        """Return the buckets that are received now."""
        own = set(self._own)
        return frozenset(bucket for bucket, stream in self._streams.items() if stream in own)

    def close(self) -> None:
        """Release the folder, whose files are left to the recorder."""
        self._run.close()
        self._client.close()

    def _join(self) -> None:
        """Make sure that the server has the consumer group, since another server may have replaced it."""
        found = self._watch.identify()
        if found != self._identity:
            self._copy.let_go()
            copies.make_groups(self._client, [COPIES], self._group)
            self._unusable = set(self._streams.values())
            self._own = []
            self._identity, self._is_repeating = found, True
        if self._unusable:
            self._unusable = copies.make_groups(self._client, self._unusable, self._group)
        self._copy.hold()
        received = (self._streams[bucket] for bucket in sorted(self._copy.received))
        own = [stream for stream in received if stream not in self._unusable]
        if own != self._own:
            self._copy.claim(set(own) - set(self._own))
            self._own, self._is_repeating, self._is_behind = own, True, True
            self._groups = frozenset()  # what is new here may have to be trimmed

    def _write(self, stream: str, entry: Entry) -> None:
        """Write the file of an entry; if it has no valid file, set its content aside."""
        if entry.file is not None:
            _write_durably(self._run.path, entry.file)
            return
        logger.error("entry %s of %s %s", entry.id, stream, terminal_line(entry.problem))
        if entry.rest:
            folder = self._root / UNREADABLE
            folder.mkdir(mode=0o700, exist_ok=True)
            _write_durably(folder, LoggedFile(f"log-{entry.id}", entry.rest))


def choose_count(count: int, largest: int, streams: int) -> int:
    """Return how many entries of each stream to request next.

    ``count`` is the number requested last, and ``largest`` the size in bytes of the largest entry
    received. The result is at most twice ``count``, and so many fit into a batch even if all are as
    large."""
    return max(1, min(2 * count, MOST_ENTRIES, BATCH_BYTES // (largest * streams)))


def _first(ids: Sequence[str]) -> str:
    return min(ids, key=_parse_id)


def _parse_id(text: str) -> tuple[int, int]:
    ms, _, number = text.partition("-")
    return int(ms), int(number)


def _write_durably(folder: Path, file: LoggedFile) -> None:
    part = folder / (file.name.removesuffix(DONE) + PART)
    fd = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(file.data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    part.rename(folder / file.name)
