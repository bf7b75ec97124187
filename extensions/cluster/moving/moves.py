"""Moving a bucket of organisations from one node of a copy to another.

``keys.MOVES`` has the moves that go on, by copy and bucket; ``keys.MOVES_SAID`` what the node that gives
(``<id>:from``) and the one that takes (``<id>:to``) say of a move; and below ``keys.PIECES`` is the piece of
a file that was asked for last, for a minute.

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

from functools import partial

from extensions.cluster import reading, records, server
from extensions.cluster.checks import RecordError
from extensions.cluster.keys import MOVES, MOVES_SAID, PIECES
from extensions.cluster.records import Move, Offer, Wish
from runtime import clock

PIECE_MS = 60_000
# Orders a move unless one goes on: two operators may order at once.
_ORDER = """
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found then return found end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return ARGV[2]
"""


def find_moves(client: server.Client) -> list[Move]:
    """Return the moves that go on. Raises redis.RedisError."""
    found = reading.read_hash(
        client, MOVES, lambda field, content: records.parse_move(content, field)
    )
    return sorted(found.values(), key=lambda each: each.id)


def read_offer(client: server.Client, move: Move) -> Offer | None:
    """Return the offer of the node that gives. Raises redis.RedisError."""
    parse = partial(records.parse_offer, move=move)
    return reading.read_field(client, MOVES_SAID, f"{move.id}:from", parse)


def say_offer(client: server.Client, move: Move, offer: Offer) -> None:
    """Publish the offer of the node that gives. Raises redis.RedisError."""
    client.hset(MOVES_SAID, f"{move.id}:from", offer.pack())


def read_wish(client: server.Client, move: Move) -> Wish | None:
    """Return the wish of the node that takes. Raises redis.RedisError."""
    return reading.read_field(client, MOVES_SAID, f"{move.id}:to", records.parse_wish)


def say_wish(client: server.Client, move: Move, wish: Wish) -> None:
    """Publish the wish of the node that takes. Raises redis.RedisError."""
    client.hset(MOVES_SAID, f"{move.id}:to", wish.pack())


def send_piece(client: server.Client, move: Move, wish: Wish, piece: bytes) -> None:
    """Put the piece that is wished for where the other node finds it. Raises redis.RedisError."""
    client.set(f"{PIECES}{move.id}", records.pack_piece(wish, piece), px=PIECE_MS)


def read_piece(client: server.Client, move: Move, wish: Wish, most: int) -> bytes | None:
    """Return the piece that is wished for, of ``most`` bytes at most, None before it is there. Raises
    redis.RedisError."""
    parse = partial(records.parse_piece, wish=wish, most=most)
    return reading.read_value(client, f"{PIECES}{move.id}", parse) or None


def order(client: server.Client, group: str, bucket: int, giver: str, taker: str) -> Move:
    """Order a move, or return the one of this bucket that goes on. Raises redis.RedisError."""
    move = Move(id=clock.new_id(), group=group, bucket=bucket, giver=giver, taker=taker)
    content = client.register_script(_ORDER)([MOVES], [move.field, move.pack()])
    try:
        return records.parse_move(content, move.field)
    except RecordError:  # what no node wrote has no place here
        client.hset(MOVES, move.field, move.pack())
        return move


def end(client: server.Client, move: Move) -> None:
    """Remove a move, and what was said of it. Raises redis.RedisError."""
    forget_said(client, move)
    client.hdel(MOVES, move.field)


def forget_said(client: server.Client, move: Move) -> None:
    """Remove what was said of a move that has ended. Raises redis.RedisError."""
    client.hdel(MOVES_SAID, f"{move.id}:from", f"{move.id}:to")
