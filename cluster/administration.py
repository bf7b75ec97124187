"""The operator's part of a cluster: its nodes are listed, and one is given up."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import orjson
import redis

from cluster import copies, server
from cluster.copies import COPIES, NODES
from cluster.erasures import OF_NODES
from runtime.errors import ConflictError, ControlError, NotFoundError
from store.control import erasure_copies
from store.control.database import ControlDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNode:
    """A node: the copy of which it keeps so many buckets, and where it is. A proxy node that does not
    record has no copy."""

    id: str
    copy: str | None
    address: str | None
    buckets: int
    is_alive: bool | None


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the server into one of the caller."""
    try:
        yield
    except redis.RedisError as error:
        raise ControlError(f"the server of the cluster does not respond: {error}") from error


def list_nodes(url: str) -> list[ListedNode]:
    """Return the nodes that keep calls, and the proxy nodes that ship some. Raises ControlError."""
    client = server.connect(url)
    with explained():
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
    """Give up a node that is gone for good: others of its copy take its buckets, without its calls, and
    orders to erase calls do not wait for it. Raises ControlError, sqlite3.Error."""
    client = server.connect(url)
    with explained():
        member = copies.find_members(client).get(node)
        if member is None and node not in _find_proxies(client):
            raise NotFoundError(f"there is no node {node!r}: `taximeter cluster nodes` lists them")
        if member is not None and node in find_living(client, member.group):
            raise ConflictError(f"the node {node} lives: stop it for good first")
        client.hdel(NODES, node)
        client.hdel(OF_NODES, node)
    with control.transaction() as db:
        erasure_copies.forget_node(db, node)


def find_living(client: server.Client, group: str) -> set[str]:
    """Return the nodes of a copy that live, none where the server does not know the copy any more."""
    (known,) = copies.find_groups(client, [COPIES])
    return copies.find_living(client, group) if group in known else set()


def _find_proxies(client: server.Client) -> list[str]:
    said = client.hgetall(OF_NODES).items()
    return sorted(
        name.decode() for name, content in said if orjson.loads(content)["clear"] is not None
    )
