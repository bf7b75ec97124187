"""Moving a bucket of organisations from one node of a copy to another.

    taximeter:moves          a hash: the moves that go on, by copy and bucket, each as JSON
    taximeter:moves:said     a hash: what the node that gives (``<id>:from``) and the one that takes
                             (``<id>:to``) say of a move
    taximeter:moves:<id>     the piece of a file that was asked for last, for a minute

The operator orders a move, and both nodes carry it out, whichever of them was killed meanwhile:

1. The node that gives stops receiving the bucket, whose calls wait on the server, and waits until its
   recorder has stored what was received. It holds the write locks of the databases: from now on their files
   stay as they are. This is an attempt, which begins anew when the node does, or the other one is away.
2. The node that takes asks for the files piece by piece, and keeps them in ``incoming``.
3. When it has all of an attempt, the node that gives writes the other one's name into ``taximeter:buckets``,
   in one step with looking whether the move is still wanted.
4. The node that takes moves the files to its traces. It receives the bucket once that has been so for some
   seconds: a server that fails over in between may have lost it, and then the node that gives still has all.
5. The node that gives removes its files, and the move ends.

Files go through the Redis server because both nodes reach it already. At any time no more than a few
megabytes of them are there.
"""

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from cluster import copies, server
from cluster.copies import Copy, bucket_key
from runtime import clock
from runtime.buckets import find_bucket
from runtime.private_file import replace_private
from runtime.synced import sync
from store import database
from store.spool.format import DONE, OPEN, REJECTIONS, UNREADABLE
from store.traces.paths import trace_path_in, traces_folder

logger = logging.getLogger(__name__)

MOVES, SAID = "taximeter:moves", "taximeter:moves:said"
INCOMING = "incoming"
STATE = "move.json"
PIECE_BYTES = 4 << 20
PIECE_MS = 60_000
STABLE_S = 6.0  # longer than the five seconds that a failover may lose
# Gives a bucket to the node that takes it, if the move is still wanted.
_HAND_OVER = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if redis.call('HGET', KEYS[2], ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[5])
return 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move of a bucket of a copy, by the names of the nodes."""

    id: str
    group: str
    bucket: int
    giver: str
    taker: str

    @property
    def field(self) -> str:
        return find_field(self.group, self.bucket)

    def pack(self) -> bytes:
        return orjson.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The offer of the node that gives: its attempt, and the files with their sizes, by folder and name."""

    attempt: str
    files: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wish of the node that takes: a piece of an attempt, unless it has all (``is_complete``).

    ``is_placed``: it keeps the bucket. ``refusal`` says why it does not take it."""

    attempt: str | None = None
    name: str = ""
    offset: int = 0
    is_complete: bool = False
    is_placed: bool = False
    refusal: str | None = None


def find_field(group: str, bucket: int) -> str:
    """Return the field of a move in the hash of moves."""
    return f"{group}:{bucket}"


def find_moves(client: server.Client) -> list[Move]:
    """Return the moves that go on. Raises redis.RedisError."""
    found: Mapping[bytes, bytes] = client.hgetall(MOVES)
    return sorted((Move(**orjson.loads(each)) for each in found.values()), key=lambda each: each.id)


def read_offer(client: server.Client, move: Move) -> Offer | None:
    """Return what the node that gives says. Raises redis.RedisError."""
    content = client.hget(SAID, f"{move.id}:from")
    if content is None:
        return None
    found = orjson.loads(content)
    return Offer(attempt=found["attempt"], files=[(name, size) for name, size in found["files"]])


def read_wish(client: server.Client, move: Move) -> Wish | None:
    """Return what the node that takes says. Raises redis.RedisError."""
    content = client.hget(SAID, f"{move.id}:to")
    return None if content is None else Wish(**orjson.loads(content))


def send_piece(client: server.Client, move: Move, wish: Wish, piece: bytes) -> None:
    """Put the piece that is wished for where the other node finds it. Raises redis.RedisError."""
    client.set(f"{MOVES}:{move.id}", orjson.dumps(asdict(wish)) + b"\n" + piece, px=PIECE_MS)


def read_piece(client: server.Client, move: Move, wish: Wish) -> bytes | None:
    """Return the piece that is wished for, None before it is there. Raises redis.RedisError."""
    found: bytes | None = client.get(f"{MOVES}:{move.id}")
    if found is None:
        return None
    head, _, piece = found.partition(b"\n")
    return piece if head == orjson.dumps(asdict(wish)) else None


class Hold:
    """The files of a bucket, which nobody else writes as long as they are held."""

    def __init__(self, data_dir: Path, bucket: int) -> None:
        """Lock the databases. Raises sqlite3.OperationalError while somebody else uses them."""
        self.attempt = clock.new_id()
        self._folders = find_folders(data_dir, bucket)
        self._connections: list[sqlite3.Connection] = []
        # They stay open until the end: closing one would give up the locks of this process on the file.
        self._files: dict[str, int] = {}
        try:
            for folder in self._folders:
                for path in sorted(folder.glob("*.db")):
                    self._connections.append(database.open_held(path))
                for path in sorted(folder.iterdir()):
                    if path.is_file() and not path.name.endswith(("-wal", "-shm", ".new")):
                        flags = os.O_RDONLY | os.O_CLOEXEC
                        self._files[f"{folder.name}/{path.name}"] = os.open(path, flags)
        except BaseException:
            self.release()
            raise

    def list_files(self) -> list[tuple[str, int]]:
        return [(name, os.fstat(fd).st_size) for name, fd in sorted(self._files.items())]

    def read(self, name: str, offset: int) -> bytes:
        """Return a piece of a file. Raises OSError, KeyError for one that is not of the bucket."""
        return os.pread(self._files[name], PIECE_BYTES, offset)

    def release(self) -> None:
        """Let others write again."""
        for connection in self._connections:
            with suppress(sqlite3.Error):
                connection.close()
        for fd in self._files.values():
            os.close(fd)
        self._connections.clear()
        self._files.clear()


class Giver:
    """The part of the node that gives a bucket. ``paused`` are buckets that it must not receive."""

    def __init__(
        self,
        client: server.Client,
        find_received: Callable[[], Set[int]],
        spool_path: Path,
        data_dir: Path,
    ) -> None:
        """Give what is in ``data_dir``. ``find_received`` returns the buckets that are received now."""
        self._client = client
        self._find_received = find_received
        self._spool_path, self._data_dir = spool_path, data_dir
        self._hand_over = client.register_script(_HAND_OVER)
        self._hold: Hold | None = None
        self._move: Move | None = None
        self._served: Wish | None = None
        self.paused: frozenset[int] = frozenset()

    def run_round(self, move: Move | None, holder: str | None, *, is_awaited: bool) -> bool:
        """Do what can be done of a move; return whether more can be done at once. ``is_awaited``: the node
        that takes is there.

        Raises redis.RedisError, sqlite3.Error, OSError."""
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
            self._client.hdel(MOVES, move.field)
            return False
        if not is_awaited or wish is None or wish.refusal is not None:
            return False
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
        """Give up the attempt that goes on, and receive the bucket again."""
        if self._hold is not None:
            self._hold.release()
        self._hold, self._served = None, None
        self.paused = frozenset()

    def _begin(self, move: Move) -> None:
        try:
            self._hold = Hold(self._data_dir, move.bucket)
        except sqlite3.OperationalError as error:
            logger.info("bucket %d waits to be moved: %s", move.bucket, error)
            return
        offer = Offer(attempt=self._hold.attempt, files=self._hold.list_files())
        self._client.hset(SAID, f"{move.id}:from", orjson.dumps(asdict(offer)))
        logger.info("bucket %d is being moved to node %s", move.bucket, move.taker)

    def _serve(self, move: Move, wish: Wish) -> bool:
        hold = self._hold
        if hold is None or wish.attempt != hold.attempt:
            return hold is not None
        if wish.is_complete:
            keys = [MOVES, bucket_key(move.group)]
            words = [move.field, move.pack(), move.bucket, move.giver, move.taker]
            self._hand_over(keys, words)
        elif wish != self._served:
            send_piece(self._client, move, wish, hold.read(wish.name, wish.offset))
            self._served = wish
        return True

    def _end(self, move: Move) -> None:
        """Remove what the other node has now."""
        for folder in find_folders(self._data_dir, move.bucket):
            shutil.rmtree(folder)
        self.release()
        self._client.hdel(SAID, f"{move.id}:from", f"{move.id}:to")
        self._client.hdel(MOVES, move.field)
        logger.info("bucket %d has been moved to node %s", move.bucket, move.taker)


@dataclass(slots=True)
class Arrival:
    """The files of a move in the folder ``incoming`` of the node that takes.

    ``attempt`` is the one of which all files are there, None before. Folders of ``organizations`` that are
    not here any more are among the traces."""

    folder: Path
    move: Move
    attempt: str | None = None
    organizations: Sequence[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what is left of an earlier process. Raises OSError, ValueError."""
        found = orjson.loads((folder / STATE).read_bytes())
        return cls(folder, Move(**found.pop("move")), **found)

    def write(self) -> None:
        """Store the state, and bring it to the disk. Raises OSError."""
        content = asdict(self)
        del content["folder"]
        replace_private(self.folder / STATE, orjson.dumps(content))
        sync(self.folder / STATE)
        sync(self.folder)

    def clear(self, traces: Path) -> None:
        """Begin anew with an empty folder."""
        self.take_back(traces)
        self.folder.mkdir(mode=0o700, parents=True)
        self.attempt, self.organizations = None, []
        self.write()

    def place(self, traces: Path) -> None:
        """Move what has arrived to the traces. Raises OSError where something is in its place."""
        traces.mkdir(mode=0o700, exist_ok=True)
        for each in self.organizations:
            if (self.folder / each).exists():
                if (traces / each).exists():
                    raise FileExistsError(f"{traces / each} is there already")
                (self.folder / each).rename(traces / each)
        sync(traces)

    def take_back(self, traces: Path) -> None:
        """Remove what was placed, and all that has arrived: the node that gives has it still."""
        for each in self.organizations:
            if not (self.folder / each).exists() and (traces / each).exists():
                shutil.rmtree(traces / each)
        if self.folder.exists():
            shutil.rmtree(self.folder)


class Taker:
    """The part of the node that takes a bucket. ``paused`` are buckets that it must not receive yet."""

    def __init__(
        self,
        client: server.Client,
        node: str,
        data_dir: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take buckets into ``data_dir``. Raises OSError."""
        self._client = client
        self._node = node
        self._incoming = data_dir / INCOMING
        self._data_dir = data_dir
        self._clock_s = clock_s
        self._arrivals = {each.move.id: each for each in self._find_arrivals()}
        self._kept_since_s: dict[str, float] = {}
        self._wish = Wish()
        self._said: Wish | None = None
        self.paused = frozenset(each.move.bucket for each in self._arrivals.values())

    def _find_arrivals(self) -> list[Arrival]:
        found = []
        for folder in sorted(self._incoming.glob("*")):
            try:
                found.append(Arrival.read(folder))
            except (OSError, ValueError):  # it was killed at its very beginning
                shutil.rmtree(folder)
        return found

    def run_round(self, move: Move | None, holders: Sequence[str | None]) -> bool:
        """Do what can be done of a move; return whether more can be done at once.

        Raises redis.RedisError, OSError."""
        for arrival in list(self._arrivals.values()):
            self._look_after(arrival, move, holders[arrival.move.bucket])
        is_busy = False
        if move is not None and holders[move.bucket] == move.giver:
            is_busy = self._ask(move)
        elif (
            move is not None
            and holders[move.bucket] == self._node
            and move.id not in self._arrivals
        ):
            self._say(move, Wish(is_placed=True))
        waiting = {each.move.bucket for each in self._arrivals.values()}
        if move is not None and holders[move.bucket] != self._node:
            waiting.add(move.bucket)
        self.paused = frozenset(waiting)
        return is_busy

    def _look_after(self, arrival: Arrival, move: Move | None, holder: str | None) -> None:
        """Place what has arrived where this node keeps it, or remove it where the move is not wanted."""
        id_ = arrival.move.id
        if holder == self._node and arrival.attempt is not None:
            arrival.place(traces_folder(self._data_dir))
            since_s = self._kept_since_s.setdefault(id_, self._clock_s())
            if self._clock_s() - since_s >= STABLE_S:
                shutil.rmtree(arrival.folder)
                del self._arrivals[id_], self._kept_since_s[id_]
            return
        was_kept = self._kept_since_s.pop(id_, None) is not None
        if was_kept or move is None or move.id != id_:
            arrival.take_back(traces_folder(self._data_dir))
            del self._arrivals[id_]

    def _ask(self, move: Move) -> bool:
        """Ask for the next piece of what is offered, and write the one that was asked for."""
        if move.id not in self._arrivals:
            if find_folders(self._data_dir, move.bucket):
                refusal = f"the node has calls of bucket {move.bucket} already"
                self._say(move, Wish(refusal=refusal))
                return False
            arrival = Arrival(self._incoming / move.id, move)
            arrival.clear(traces_folder(self._data_dir))
            self._arrivals[move.id], self._wish = arrival, Wish()
        arrival = self._arrivals[move.id]
        offer = read_offer(self._client, move)
        if offer is None:
            self._say(move, Wish())
            return False
        if arrival.attempt == offer.attempt:
            self._say(move, Wish(attempt=offer.attempt, is_complete=True))
            return True
        if self._wish.attempt != offer.attempt:
            arrival.clear(traces_folder(self._data_dir))
            self._wish = _begin(offer)
        else:
            self._receive(arrival, offer)
        if not self._wish.name:
            self._complete(arrival, offer)
        self._say(move, self._wish)
        return True

    def _receive(self, arrival: Arrival, offer: Offer) -> None:
        """Write the piece that was asked for, if it is there, and go on to the next one."""
        wish = self._wish
        piece = read_piece(self._client, arrival.move, wish)
        if not piece:
            return
        path = _find_place(arrival.folder, wish.name)
        with path.open("r+b") as file:
            file.seek(wish.offset)
            file.write(piece)
        size = dict(offer.files)[wish.name]
        end = wish.offset + len(piece)
        if end < size:
            self._wish = Wish(attempt=offer.attempt, name=wish.name, offset=end)
            return
        sync(path)
        names = [name for name, size in offer.files if size]
        following = names[names.index(wish.name) + 1 :]
        self._wish = Wish(attempt=offer.attempt, name=following[0] if following else "")

    def _complete(self, arrival: Arrival, offer: Offer) -> None:
        for name, size in offer.files:
            found = _find_place(arrival.folder, name).stat().st_size
            if found != size:
                raise OSError(f"{name} has {found} bytes of {size}")
        arrival.organizations = sorted({name.partition("/")[0] for name, _ in offer.files})
        for each in arrival.organizations:
            sync(arrival.folder / each)
        arrival.attempt = offer.attempt
        arrival.write()
        self._wish = Wish(attempt=offer.attempt, is_complete=True)

    def _say(self, move: Move, wish: Wish) -> None:
        if wish != self._said or read_wish(self._client, move) is None:
            self._client.hset(SAID, f"{move.id}:to", orjson.dumps(asdict(wish)))
            self._said = wish


class Mover:
    """The moves of a node: one that it gives and one that it takes at a time."""

    def __init__(self, client: server.Client, copy: Copy, giver: Giver, taker: Taker) -> None:
        self._client, self._copy = client, copy
        self._giver, self._taker = giver, taker
        self._copy.paused = taker.paused

    def run_round(self) -> bool:
        """Do what can be done; return whether more can be done at once.

        Raises redis.RedisError, sqlite3.Error, OSError."""
        moves = [each for each in find_moves(self._client) if each.group == self._copy.group]
        ours = [each for each in moves if self._copy.node in (each.giver, each.taker)]
        if not ours and not self._copy.paused:
            return False
        holders = copies.find_holders(self._client, self._copy.group)
        living = copies.find_living(self._client, self._copy.group)
        given = next((each for each in ours if each.giver == self._copy.node), None)
        taken = next((each for each in ours if each.taker == self._copy.node), None)
        try:
            is_busy = self._taker.run_round(taken, holders)
            return is_busy | self._giver.run_round(
                given,
                None if given is None else holders[given.bucket],
                is_awaited=given is not None and given.taker in living,
            )
        finally:
            self._copy.paused = self._giver.paused | self._taker.paused

    def close(self) -> None:
        """Give up what is held. It is begun anew after the next start."""
        self._giver.release()


def find_folders(data_dir: Path, bucket: int) -> list[Path]:
    """Return the folders of the organisations of a bucket that have traces."""
    return sorted(
        folder for folder in traces_folder(data_dir).glob("*") if find_bucket(folder.name) == bucket
    )


def has_unrecorded(spool_path: Path, bucket: int) -> bool:
    """Return whether the recorder of a node has to store something of a bucket. Rejections of all
    organisations are in the same files."""
    for _ in range(2):  # one listing can miss a file that is renamed under it
        for path in spool_path.glob("*/*~*"):
            if path.suffix in (OPEN, DONE) and path.parent.name != UNREADABLE:
                owner = path.stem.split("~")[1]
                if owner == REJECTIONS or find_bucket(owner) == bucket:
                    return True
    return False


def _begin(offer: Offer) -> Wish:
    """Return the first piece to ask for."""
    names = [name for name, size in offer.files if size]
    return Wish(attempt=offer.attempt, name=names[0] if names else "")


def _find_place(folder: Path, name: str) -> Path:
    """Return where a file of a move is to be, made if need be. Raises ValueError, OSError."""
    organization_id, _, file_name = name.partition("/")
    path = trace_path_in(folder, organization_id).with_name(file_name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)
    return path


def order(client: server.Client, group: str, bucket: int, giver: str, taker: str) -> Move:
    """Order a move, or return the one of this bucket that goes on. Raises redis.RedisError."""
    content: Any = client.hget(MOVES, find_field(group, bucket))
    if content is not None:
        return Move(**orjson.loads(content))
    move = Move(id=clock.new_id(), group=group, bucket=bucket, giver=giver, taker=taker)
    client.hset(MOVES, move.field, move.pack())
    return move
