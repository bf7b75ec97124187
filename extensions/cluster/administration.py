"""The operator's commands for a cluster: listing nodes, giving up a node, and moving buckets."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import redis

from extensions.cluster import copies, erasure_copies, reading, server
from extensions.cluster.buckets import BUCKETS, find_bucket
from extensions.cluster.erasures import read_reports
from extensions.cluster.keys import COPIES, ERASURES_OF_NODES, MOVES, NODES
from extensions.cluster.moving import moves
from extensions.cluster.records import Move
from runtime.errors import ConflictError, ControlError, InvalidInputError, NotFoundError
from store.control import people
from store.control.database import ControlDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNode:
    """A node of the cluster with its address.

    ``buckets`` is the number of buckets that it keeps of ``copy``; a proxy node that does not record
    has no copy."""

    id: str
    copy: str | None
    address: str | None
    buckets: int
    is_alive: bool | None


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the Redis server into ControlError."""
    try:
        yield
    except redis.RedisError as error:
        raise ControlError(f"the server of the cluster does not respond: {error}") from error


@contextmanager
def _connected(url: str) -> Iterator[server.Client]:
    client = server.connect(url)
    with explained():
        try:
            yield client
        finally:
            server.close(client)


def list_nodes(url: str) -> list[ListedNode]:
    """Return the nodes that keep calls, and the proxy nodes that ship calls. Raises ControlError."""
    with _connected(url) as client:
        members = copies.find_members(client)
        found = []
        for group in sorted({each.group for each in members.values()}):
            counts = Counter(copies.find_holders(client, group))
            living = find_living(client, group)
            found += [
                ListedNode(
                    id=node,
                    copy=group,
                    address=member.address,
                    buckets=counts[node],
                    is_alive=node in living,
                )
                for node, member in sorted(members.items())
                if member.group == group
            ]
        return found + [
            ListedNode(id=node, copy=None, address=None, buckets=0, is_alive=None)
            for node in _find_proxies(client)
            if node not in members
        ]


def forget(url: str, control: ControlDatabase, node: str) -> None:
    """Give up a node that is gone for good.

    Other nodes of its copy take its buckets, without its calls; its moves end, and erasures do not
    wait for it. Raises ControlError, sqlite3.Error."""
    with _connected(url) as client:
        member = copies.find_members(client).get(node)
        if member is None and node not in _find_proxies(client):
            raise NotFoundError(f"there is no node {node!r}: `taximeter cluster nodes` lists them")
        if member is not None and node in find_living(client, member.group):
            raise ConflictError(f"the node {node} lives: stop it for good first")
        for move in moves.find_moves(client):
            if node in (move.giver, move.taker):
                moves.end(client, move)
        client.hdel(NODES, node)
        client.hdel(ERASURES_OF_NODES, node)
    with control.transaction() as db:
        erasure_copies.forget_node(db, node)


def find_living(client: server.Client, group: str) -> set[str]:
    """Return the nodes of a copy that are up, empty if the server does not know the copy."""
    (known,) = reading.find_groups(client, [COPIES])
    return copies.find_living(client, group) if group in known else set()


def _find_proxies(client: server.Client) -> list[str]:
    return sorted(name for name, each in read_reports(client).items() if each.clear is not None)


# Ends a move unless the bucket was handed over.
_CANCEL = """
if redis.call('HGET', KEYS[2], ARGV[3]) == ARGV[4] then return 0 end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveState:
    """The state of a move. ``done_bytes`` of ``bytes`` have arrived.

    ``problem`` says why it waits or is refused."""

    bucket: int
    copy: str
    giver: str
    taker: str
    has_ended: bool = False
    is_handed_over: bool = False
    done_bytes: int = 0
    bytes: int | None = None
    problem: str | None = None


def parse_bucket(control: ControlDatabase, text: str) -> int:
    """Return a bucket, given as its number or as the id of an organisation in it.

    Raises InvalidInputError, sqlite3.Error, and NotFoundError if no organisation has the id."""
    if not text.isdecimal():
        with control.reading() as db:
            if text not in people.list_organization_ids(db):
                raise NotFoundError(f"{text!r} is no number of a bucket, and no organization's id")
        return find_bucket(text)
    if len(text) > 3 or int(text) >= BUCKETS:
        raise InvalidInputError(f"buckets are numbered from 0 to {BUCKETS - 1}")
    return int(text)


def order_move(url: str, bucket: int, node: str) -> Move | None:
    """Order the move of a bucket to another node of its copy; return the new or the already open order.

    Return None if the node keeps the bucket already. Raises ControlError."""
    with _connected(url) as client:
        member = copies.find_members(client).get(node)
        if member is None:
            raise NotFoundError(
                f"there is no recorder node {node!r}: see `taximeter cluster nodes`"
            )
        open_move = _find_move(client, member.group, bucket)
        holder = copies.find_holders(client, member.group)[bucket]
        if open_move is not None:
            if open_move.taker != node:
                raise _is_being_moved(open_move)
            return open_move
        if holder == node:
            return None
        if holder is None:
            raise ConflictError(f"no node keeps bucket {bucket} of the copy {member.group!r} now")
        for each in (holder, node):
            if each not in find_living(client, member.group):
                raise ConflictError(f"the node {each} is away: start it first")
        move = moves.order(client, member.group, bucket, holder, node)
        if move.taker != node:  # of somebody who ordered at the same moment
            raise _is_being_moved(move)
        return move


def read_move(url: str, move: Move) -> MoveState:
    """Return the state of a move. Raises ControlError."""
    with _connected(url) as client:
        wish, offer = moves.read_wish(client, move), moves.read_offer(client, move)
        state = MoveState(
            bucket=move.bucket,
            copy=move.group,
            giver=move.giver,
            taker=move.taker,
            has_ended=_find_move(client, move.group, move.bucket) != move,
            is_handed_over=copies.find_holders(client, move.group)[move.bucket] == move.taker,
        )
        if wish is not None and wish.refusal is not None:
            return replace(state, problem=wish.refusal)
        if wish is None or offer is None or wish.attempt != offer.attempt:
            away = {move.giver, move.taker} - find_living(client, move.group)
            problem = f"the node {min(away)} is away" if away else None
            return replace(state, problem=problem)
        before = 0
        for name, size in offer.files:
            if name == wish.name:
                break
            before += size
        total = sum(size for _, size in offer.files)
        done = total if wish.is_complete else before + wish.offset
        return replace(state, done_bytes=done, bytes=total)


def cancel_move(url: str, bucket: int, node: str) -> bool:
    """Cancel the move of a bucket to a node. Return False if it was handed over already.

    Raises ControlError."""
    with _connected(url) as client:
        member = copies.find_members(client).get(node)
        move = None if member is None else _find_move(client, member.group, bucket)
        if move is None or move.taker != node:
            raise NotFoundError(f"bucket {bucket} is not being moved to the node {node}")
        keys = [MOVES, copies.bucket_key(move.group)]
        words = [move.field, move.pack(), move.bucket, move.taker]
        has_ended = bool(client.register_script(_CANCEL)(keys, words))
        if has_ended:
            moves.forget_said(client, move)
        return has_ended


def _is_being_moved(move: Move) -> ConflictError:
    return ConflictError(
        f"bucket {move.bucket} is being moved to the node {move.taker}: add --cancel first"
    )


def _find_move(client: server.Client, group: str, bucket: int) -> Move | None:
    found = [
        each for each in moves.find_moves(client) if (each.group, each.bucket) == (group, bucket)
    ]
    return found[0] if found else None
