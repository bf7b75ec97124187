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

While nothing happens for half a minute, because the server or the disk of the node that takes is full, say,
the node that gives receives the bucket for a minute, and begins anew: what waits on a full server would
otherwise wait for the move, and the move for room.

Files go through the Redis server because both nodes reach it already. At any time no more than a few
megabytes of them are there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from cluster import server
from runtime import clock

MOVES, SAID = "taximeter:moves", "taximeter:moves:said"
PIECE_MS = 60_000
# Orders a move unless one goes on: two operators may order at once.
_ORDER = """
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found then return found end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return ARGV[2]
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


def order(client: server.Client, group: str, bucket: int, giver: str, taker: str) -> Move:
    """Order a move, or return the one of this bucket that goes on. Raises redis.RedisError."""
    move = Move(id=clock.new_id(), group=group, bucket=bucket, giver=giver, taker=taker)
    content: Any = client.register_script(_ORDER)([MOVES], [move.field, move.pack()])
    return Move(**orjson.loads(content))


def end(client: server.Client, move: Move) -> None:
    """Remove a move, and what was said of it. Raises redis.RedisError."""
    forget_said(client, move)
    client.hdel(MOVES, move.field)


def forget_said(client: server.Client, move: Move) -> None:
    """Remove what was said of a move that has ended. Raises redis.RedisError."""
    client.hdel(SAID, f"{move.id}:from", f"{move.id}:to")
