"""The part of the node that gives a bucket away; see ``moves.py``."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Set
from contextlib import suppress
from pathlib import Path

from extensions.cluster import server
from extensions.cluster.buckets import find_bucket, find_bucket_folders
from extensions.cluster.copies import bucket_key
from extensions.cluster.keys import MOVES
from extensions.cluster.moving import incoming, moves
from extensions.cluster.moving.moves import read_wish, send_piece
from extensions.cluster.records import MOST_PIECE_BYTES, Move, Offer, Wish
from runtime import clock
from store import database
from store.backup.contents import list_names_of_organization
from store.spool.format import DONE, OPEN, REJECTIONS, UNREADABLE

logger = logging.getLogger(__name__)

PIECE_BYTES = MOST_PIECE_BYTES
NOT_GIVEN = ("-wal", "-shm", ".new")
STALLED_S, REST_S = 30.0, 60.0
# Gives a bucket to the node that takes it, if the move is still wanted.
_HAND_OVER = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if redis.call('HGET', KEYS[2], ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[5])
return 1
"""


class Hold:
    """The files of a bucket, which no other process can write while they are held."""

    def __init__(self, data_dir: Path, bucket: int) -> None:
        """Lock the databases of a bucket.

        Raises sqlite3.OperationalError if another process uses them, and OSError if a folder has a
        file that is not the store's."""
        self.attempt = clock.new_id()
        self._folders = find_bucket_folders(data_dir, bucket)
        self._connections: list[sqlite3.Connection] = []
        # They stay open until the end: closing one would give up the locks of this process on the file.
        self._files: dict[str, int] = {}
        self._read: set[str] = set()  # up to their ends
        try:
            for folder in self._folders:
                for path in sorted(folder.glob("*.db")):
                    self._connections.append(database.open_held(path))
                for path in sorted(folder.iterdir()):
                    if not path.name.endswith(NOT_GIVEN):
                        self._open(path)
        except BaseException:
            self.release()
            raise

    def _open(self, path: Path) -> None:
        if path.name not in list_names_of_organization():
            raise FileExistsError(f"{path} is not of this program: move it away")
        self._files[f"{path.parent.name}/{path.name}"] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def list_files(self) -> list[tuple[str, int]]:
        return [(name, os.fstat(fd).st_size) for name, fd in sorted(self._files.items())]

    def read(self, name: str, offset: int) -> bytes:
        """Return a piece of a file from ``offset`` on, empty if it is not of the bucket. Raises OSError."""
        if name not in self._files:
            return b""
        piece = os.pread(self._files[name], PIECE_BYTES, offset)
        if offset + len(piece) >= os.fstat(self._files[name]).st_size:
            self._read.add(name)
        return piece

    @property
    def was_read(self) -> bool:
        """Return whether every file was read to its end."""
        return all(name in self._read for name, size in self.list_files() if size)

    def release(self) -> None:
        """Unlock the databases."""
        for connection in self._connections:
            with suppress(sqlite3.Error):
                connection.close()
        for fd in self._files.values():
            os.close(fd)
        self._connections.clear()
        self._files.clear()


class Giver:
    """Gives buckets away, on one node. ``paused`` are buckets that it must not receive meanwhile."""

    def __init__(
        self,
        client: server.Client,
        find_received: Callable[[], Set[int]],
        spool_path: Path,
        data_dir: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Give files in ``data_dir``. ``find_received`` returns the buckets that this node receives now."""
        self._client = client
        self._find_received = find_received
        self._spool_path, self._data_dir = spool_path, data_dir
        self._hand_over = client.register_script(_HAND_OVER)
        self._hold: Hold | None = None
        self._move: Move | None = None
        self._served: Wish | None = None
        self._clock_s = clock_s
        self._progress: tuple[Move, Wish] | None = None
        self._progress_at_s = 0.0
        self.paused: frozenset[int] = frozenset()

    def run_round(self, move: Move | None, holder: str | None, *, is_awaited: bool) -> bool:
        """Do the next step of a move; return whether another step can follow at once.

        ``holder`` is the node that keeps the bucket now. ``is_awaited``: the taking node is up. Raises
        redis.RedisError, sqlite3.Error, OSError."""
        if move != self._move or not is_awaited:
            self.release()
        self._move = move
        if move is None:
            return False
        wish = read_wish(self._client, move)
        if holder == move.taker:
            if wish is not None and wish.is_placed:
                self._end(move)
            return False
        if holder != move.giver:  # it was given up, or has nothing to do with this any more
            moves.end(self._client, move)
            return False
        if not is_awaited or wish is None or wish.refusal or self._is_resting(move, wish):
            self.release()
            return False
        return self._carry_out(move, wish)

    def _carry_out(self, move: Move, wish: Wish) -> bool:
        """Stop receiving the bucket, then hold its files, then send them piece by piece."""
        if move.bucket not in self.paused:
            self.paused = frozenset({move.bucket})
            return False  # the receiver looks at it before the next round
        if self._hold is None:
            if move.bucket in self._find_received() or has_unrecorded(
                self._spool_path, move.bucket
            ):
                return False
            self._begin(move)
        return self._serve(move, wish)

    def release(self) -> None:
        """End the current attempt, and receive the bucket again."""
        if self._hold is not None:
            self._hold.release()
        self._hold, self._served = None, None
        self.paused = frozenset()

    def _is_resting(self, move: Move, wish: Wish) -> bool:
        """Return whether the bucket is received again for a while, since its move makes no progress."""
        now_s = self._clock_s()
        stalled_s = now_s - self._progress_at_s
        if (move, wish) != self._progress or stalled_s >= STALLED_S + REST_S:
            self._progress, self._progress_at_s = (move, wish), now_s
            return False
        is_resting = stalled_s >= STALLED_S
        if is_resting and self.paused:
            logger.warning(
                "the move of bucket %d does not go on: its calls are received, and it begins anew in a minute",
                move.bucket,
            )
        return is_resting

    def _begin(self, move: Move) -> None:
        try:
            hold = Hold(self._data_dir, move.bucket)
        except sqlite3.OperationalError as error:
            logger.info("bucket %d waits to be moved: %s", move.bucket, error)
            return
        offer = Offer(attempt=hold.attempt, files=hold.list_files())
        try:
            moves.say_offer(self._client, move, offer)
        except BaseException:
            hold.release()  # nobody knows of this attempt
            raise
        self._hold = hold
        logger.info("bucket %d is being moved to node %s", move.bucket, move.taker)

    def _serve(self, move: Move, wish: Wish) -> bool:
        hold = self._hold
        if hold is None or wish.attempt != hold.attempt:
            return hold is not None
        if wish.is_complete:
            if not hold.was_read:  # nobody can have what was not sent
                return False
            incoming.note_handover(self._data_dir, move)
            keys = [MOVES, bucket_key(move.group)]
            words = [move.field, move.pack(), move.bucket, move.giver, move.taker]
            self._hand_over(keys, words)
        elif wish != self._served:
            send_piece(self._client, move, wish, hold.read(wish.name, wish.offset))
            self._served = wish
        return True

    def _end(self, move: Move) -> None:
        """Remove the files of a bucket that the other node has now, and end the move.

        They are kept if this node did not hand over the move: the server's word alone is not enough."""
        folders = find_bucket_folders(self._data_dir, move.bucket)
        self.release()
        if folders and not incoming.was_handed_over(self._data_dir, move):
            logger.error(
                "bucket %d is said to have been moved to node %s, and this node has not given it: its calls"
                " stay here",
                move.bucket,
                move.taker,
            )
        else:
            incoming.remove_traces(self._data_dir, folders)
            logger.info("bucket %d has been moved to node %s", move.bucket, move.taker)
        moves.end(self._client, move)


def has_unrecorded(spool_path: Path, bucket: int) -> bool:
    """Return whether the recorder of this node still has to store calls of a bucket.

    Files of rejections count for all buckets, since they are of several organisations."""
    for _ in range(2):  # one listing can miss a file that is renamed under it
        for path in spool_path.glob("*/*~*"):
            if path.suffix in (OPEN, DONE) and path.parent.name != UNREADABLE:
                owner = path.stem.split("~")[1]
                if owner == REJECTIONS or find_bucket(owner) == bucket:
                    return True
    return False
