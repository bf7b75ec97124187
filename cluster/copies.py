"""The copies of a cluster's log, and the one node that keeps each.

    taximeter:copies   a stream without entries: its groups are the copies, and the consumers of a group the
                       nodes that keep or kept it

A node says that it lives by reading from this stream, which tells it nothing. The server knows how long ago
that was. All of this works also on a server that is full, where nothing may be added: the nodes that empty
it must be able to begin.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import redis

from cluster import server
from runtime import clock
from runtime.private_file import replace_private

COPIES = "taximeter:copies"
ALIVE_S, RENEW_S = 10.0, 1.0
MOST_CLAIMED = 1000

# What the server says of each group of a stream, by its name.
type Groups = dict[str, dict[str, Any]]


class CopyTakenError(redis.RedisError):
    """Another node keeps this copy."""


class Copy:
    """A copy as one node keeps it. ``node`` is the name of the node, the same after a restart."""

    def __init__(
        self,
        client: server.Client,
        group: str,
        node: str,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self.group, self.node = group, node
        self._clock_s = clock_s
        self._held_at_s = -math.inf

    def hold(self) -> None:
        """Say that this node keeps the copy, about once in a second. Two nodes that shared one would have
        half of the calls each. Raises CopyTakenError while another one keeps it, redis.RedisError."""
        age_s = self._clock_s() - self._held_at_s
        if age_s < RENEW_S:
            return
        if age_s >= ALIVE_S and (others := self._find_others()):
            raise self._refuse(others)
        self._client.xreadgroup(self.group, self.node, {COPIES: "0"}, count=1)
        if age_s >= ALIVE_S and (
            others := [each for each in self._find_others() if each < self.node]
        ):
            self._client.xgroup_delconsumer(
                COPIES, self.group, self.node
            )  # of two that began at once
            raise self._refuse(others)
        self._held_at_s = self._clock_s()

    def let_go(self) -> None:
        """Look again whether another node keeps the copy, before this one goes on."""
        self._held_at_s = -math.inf

    def claim(self, streams: Iterable[str]) -> None:
        """Take over what was delivered to a node that kept the copy before, and not acknowledged: a batch
        of each stream at most."""
        for stream in streams:
            pending = self._client.xpending(stream, self.group)
            if any(each["name"] != self.node.encode() for each in pending["consumers"]):
                self._client.xautoclaim(
                    stream, self.group, self.node, 0, count=MOST_CLAIMED, justid=True
                )

    def _refuse(self, others: Sequence[str]) -> CopyTakenError:
        return CopyTakenError(
            f"another node ({', '.join(others)}) keeps the copy {self.group!r}: give this node a group of"
            " its own (TAXIMETER_GROUP), or stop the other one"
        )

    def _find_others(self) -> Sequence[str]:
        """Return the other nodes of the copy that live."""
        return [
            each["name"].decode()
            for each in self._client.xinfo_consumers(COPIES, self.group)
            if each["name"] != self.node.encode() and each["idle"] < 1000 * ALIVE_S
        ]


def find_groups(client: server.Client, streams: Sequence[str]) -> list[Groups]:
    """Return the groups of each stream, none where there is no such stream. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for stream in streams:
        pipeline.xinfo_groups(stream)
    return [_read_groups(result) for result in pipeline.execute(raise_on_error=False)]


def _read_groups(result: list[dict[str, Any]] | Exception) -> Groups:
    if not isinstance(result, Exception):
        return {each["name"].decode(): each for each in result}
    if "no such key" not in str(result):
        raise result
    return {}


def make_group(client: server.Client, stream: str, group: str) -> None:
    """Make sure that a stream has the group. A server that is full cannot be asked for more than that."""
    if group not in find_groups(client, [stream])[0]:
        client.xgroup_create(stream, group, id="0", mkstream=True)


def load_node(data_dir: Path) -> str:
    """Return the name of the node, made when its data directory is new. Raises OSError."""
    path = data_dir / "node.id"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        node = clock.new_id()
        replace_private(path, node.encode())
        return node
