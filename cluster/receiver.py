"""Receiving the log on a recorder node: entries become files of the node's own spool.

A group is one copy of everything; the node reads its buckets for its group. An entry is acknowledged once
its file and the folder of it are on the disk, so the recorder beside may be down, busy or stuck with one
organisation without holding up the log. An entry that is delivered again is a file again; the recorder
stores it once, by its id.

An entry leaves the log when every group has acknowledged it.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import redis

from cluster import log, server
from cluster.log import LoggedFile
from store.spool.format import DONE, UNREADABLE, SpoolError
from store.spool.writer import SpoolRun

logger = logging.getLogger(__name__)

BATCH = 200
BLOCK_MS = 200
PART = ".part"


class Receiver:
    """Receives the entries of some buckets for one group."""

    def __init__(
        self, root: Path, client: server.Client, group: str, buckets: Sequence[int]
    ) -> None:
        """Write files below ``root``, the spool. Raises OSError."""
        self._client = client
        self._group = group
        self._streams = [log.stream_name(bucket) for bucket in buckets]
        self._root = root
        self._run = SpoolRun(root, reserve_bytes=0)
        self._identity: server.Identity | None = None
        # First what was delivered and not acknowledged, by this process or the one before it.
        self._is_repeating = True

    def run_round(self) -> int:
        """Receive a batch, waiting for it a moment; return how many entries it had.

        Raises redis.RedisError and OSError; then what is not acknowledged is delivered again."""
        try:
            self._join()
            position = "0" if self._is_repeating else ">"
            found = self._client.xreadgroup(
                self._group,
                self._group,
                dict.fromkeys(self._streams, position),
                count=BATCH,
                block=None if self._is_repeating else BLOCK_MS,
            )
        except redis.RedisError:
            self._identity, self._is_repeating = None, True
            raise
        received = 0
        acknowledged = self._client.pipeline(transaction=False)
        for stream, entries in found or []:
            ids = []
            for entry_id, fields in entries:
                self._write(entry_id, fields)
                ids.append(entry_id)
            if ids:
                acknowledged.xack(stream, self._group, *ids)
            received += len(ids)
        if received:
            _sync_folder(self._run.path)
            acknowledged.execute()
        elif self._is_repeating:
            self._is_repeating = False
        return received

    def measure_lag(self) -> int:
        """Return how many entries this group has not acknowledged, of its buckets."""
        lag = 0
        for stream in self._streams:
            for group in self._client.xinfo_groups(stream):
                if group["name"].decode() == self._group:
                    lag += (group.get("lag") or 0) + group["pending"]
        return lag

    def trim(self) -> None:
        """Remove what every group has acknowledged. Raises redis.RedisError."""
        wanted = {name.decode() for name in self._client.smembers(log.GROUPS)}
        for stream in self._streams:
            groups = {each["name"].decode(): each for each in self._client.xinfo_groups(stream)}
            if wanted <= groups.keys():
                ends = [self._find_end(stream, groups[name]) for name in sorted(wanted)]
                self._client.xtrim(stream, minid=_first(ends), approximate=False)

    def close(self) -> None:
        """Give up the folder; its files are the recorder's."""
        self._run.close()
        self._client.close()

    def _join(self) -> None:
        """Make sure that the server which answers knows the group: one in its place may not."""
        found = server.identify(self._client)
        if found == self._identity:
            return
        self._client.sadd(log.GROUPS, self._group)
        for stream in self._streams:
            try:
                self._client.xgroup_create(stream, self._group, id="0", mkstream=True)
            except redis.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
        self._identity, self._is_repeating = found, True

    def _find_end(self, stream: str, group: dict[str, bytes]) -> bytes:
        """Return the id of the first entry that the group still needs, or of the last it has had."""
        pending = self._client.xpending(stream, group["name"].decode())
        first: bytes | None = pending["min"]
        return first or group["last-delivered-id"]

    def _write(self, entry_id: bytes, fields: dict[bytes, bytes]) -> None:
        try:
            file = log.decode(fields)
        except SpoolError as error:
            self._set_aside(entry_id, fields, error)
        else:
            _write_durably(self._run.path, file)

    def _set_aside(self, entry_id: bytes, fields: dict[bytes, bytes], error: SpoolError) -> None:
        logger.error("entry %s of the log is set aside: %s", entry_id.decode(), error)
        folder = self._root / UNREADABLE
        folder.mkdir(mode=0o700, exist_ok=True)
        _write_durably(folder, LoggedFile(f"log-{entry_id.decode()}", repr(fields).encode()))


def _first(ids: Sequence[bytes]) -> str:
    return min(ids, key=_parse_id).decode()


def _parse_id(text: bytes) -> tuple[int, int]:
    ms, _, number = text.partition(b"-")
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


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
