"""Moving a bucket of organisations from one node of a copy to another.

``keys.MOVES`` has the current moves, by copy and bucket; ``keys.MOVES_SAID`` the messages of the
giving node (``<id>:from``) and of the taking node (``<id>:to``); and ``keys.PIECES`` followed by an id
has the piece of a file that was requested last, for a minute.

The operator orders a move, and both nodes carry it out, even if one of them is killed meanwhile:

1. The giving node stops receiving the bucket, whose calls then wait on the server, and waits until its
recorder has stored what was received. It takes the write locks of the databases, so that their files
no longer change. This is an attempt; a new one begins if the node restarts or the other node is away.
2. The taking node requests the files piece by piece, and keeps them in ``incoming``. 3. When the
taking node has all files of an attempt, the giving node writes the other node's name into
``taximeter:buckets``, atomically with a check that the move is still wanted. 4. The taking node moves
the files to its traces. It receives the bucket once its name has been there for some seconds: a server
that fails over meanwhile may have lost that write, and then the giving node still has everything. 5.
The giving node removes its files, and the move ends.

If there is no progress for half a minute, for example because the server or the disk of the taking
node is full, the giving node receives the bucket for a minute, and begins again: otherwise calls
waiting on a full server would wait for the move, and the move for free space.

Files are sent through the Redis server because both nodes reach it already. At any time at most a few
megabytes of them are there."""

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
    """Return the current moves. Raises redis.RedisError."""
    found = reading.read_hash(
        client, MOVES, lambda field, content: records.parse_move(content, field)
    )
    return sorted(found.values(), key=lambda each: each.id)


def read_offer(client: server.Client, move: Move) -> Offer | None:
    """Return the giving node's offer, None if there is none. Raises redis.RedisError."""
    parse = partial(records.parse_offer, move=move)
    return reading.read_field(client, MOVES_SAID, f"{move.id}:from", parse)


def say_offer(client: server.Client, move: Move, offer: Offer) -> None:
    """Write the giving node's offer. Raises redis.RedisError."""
    client.hset(MOVES_SAID, f"{move.id}:from", offer.pack())


def read_wish(client: server.Client, move: Move) -> Wish | None:
    """Return the taking node's wish, None if there is none. Raises redis.RedisError."""
    return reading.read_field(client, MOVES_SAID, f"{move.id}:to", records.parse_wish)


def say_wish(client: server.Client, move: Move, wish: Wish) -> None:
    """Write the taking node's wish. Raises redis.RedisError."""
    client.hset(MOVES_SAID, f"{move.id}:to", wish.pack())


def send_piece(client: server.Client, move: Move, wish: Wish, piece: bytes) -> None:
    """Write the piece that ``wish`` requests for the taking node. Raises redis.RedisError."""
    client.set(f"{PIECES}{move.id}", records.pack_piece(wish, piece), px=PIECE_MS)


def read_piece(client: server.Client, move: Move, wish: Wish, most: int) -> bytes | None:
    """Return the piece that ``wish`` requests, None before it is there. Raises redis.RedisError.

    Pieces of more than ``most`` bytes are refused."""
    parse = partial(records.parse_piece, wish=wish, most=most)
    return reading.read_value(client, f"{PIECES}{move.id}", parse) or None


def order(client: server.Client, group: str, bucket: int, giver: str, taker: str) -> Move:
    """Order a move and return it, or return the current move of this bucket. Raises redis.RedisError."""
    move = Move(id=clock.new_id(), group=group, bucket=bucket, giver=giver, taker=taker)
    content = client.register_script(_ORDER)([MOVES], [move.field, move.pack()])
    try:
        return records.parse_move(content, move.field)
    except RecordError:  # what no node wrote has no place here
        client.hset(MOVES, move.field, move.pack())
        return move


def end(client: server.Client, move: Move) -> None:
    """Remove a move, and the messages of its nodes. Raises redis.RedisError."""
    forget_said(client, move)
    client.hdel(MOVES, move.field)


def forget_said(client: server.Client, move: Move) -> None:
    """Remove the nodes' messages of a move that has ended. Raises redis.RedisError."""
    client.hdel(MOVES_SAID, f"{move.id}:from", f"{move.id}:to")
