"""The copies of a cluster's log, and the nodes that keep each copy.

The consumer groups of the stream ``keys.COPIES`` are the copies, and the consumers of a group are the
nodes that keep or kept a part of it. ``keys.NODES`` has these nodes, each with its group and address,
and ``keys.BUCKETS`` for each group the node that keeps each bucket.

A node shows that it lives by reading from the stream, which returns nothing; the server knows how long
ago that was. All of this also works on a server that is full, where nothing can be added: the nodes
that empty it must be able to start.

A bucket stays with the node that has its calls, also while that is away. The first node of a group
takes all buckets. A node that comes later gets its share of buckets without calls from the nodes that
have them. So no two nodes of a copy have calls of one organisation."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import orjson
import redis

from extensions.cluster import keys, log, reading, records, server
from extensions.cluster.buckets import BUCKETS, find_bucket
from extensions.cluster.checks import RecordError
from extensions.cluster.keys import COPIES, NODES
from extensions.cluster.page_nodes import read_node
from extensions.cluster.records import Member
from extensions.cluster.settings import NODE_FILE
from runtime import clock
from runtime.files import replace_private
from store.traces.paths import find_trace_files

logger = logging.getLogger(__name__)

ALIVE_S, RENEW_S = 10.0, 1.0
MOST_CLAIMED = 1000
NEVER = "0-0"  # the last entry that was delivered of a stream of which none was
_BUCKET_FIELDS = frozenset(map(str, range(BUCKETS)))
# Gives buckets from one node to another, of those that the first one still has.
_GIVE = """
local given = {}
for i = 1, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    given[#given + 1] = tonumber(ARGV[i])
  end
end
return given
"""

type Holders = Sequence[str | None]


class NothingToKeepError(redis.RedisError):
    """There is no bucket for this node: nodes that are gone keep all buckets of its copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A copy as seen by the node ``node``.

    ``holders`` has the node that keeps each bucket, ``members`` the nodes that belong to the copy, and
    ``living`` those that live. ``is_alone``: ``node`` has never seen another member."""

    node: str
    holders: Holders
    members: Set[str]
    living: Set[str]
    is_alone: bool

    @property
    def own(self) -> frozenset[int]:
        return self.find_buckets(self.node)

    @property
    def free(self) -> frozenset[int]:
        """Return the buckets without a node, or with a node that was taken out of the cluster."""
        return frozenset(
            bucket for bucket, holder in enumerate(self.holders) if holder not in self.members
        )

    @property
    def lost(self) -> Set[str]:
        """Return the nodes that keep buckets but do not live."""
        return {each for each in self.members - self.living if self.find_buckets(each)}

    def find_buckets(self, node: str) -> frozenset[int]:
        return frozenset(bucket for bucket, holder in enumerate(self.holders) if holder == node)

    def choose_claims(self, with_files: Set[int], free_before: Set[int]) -> frozenset[int]:
        """Return the buckets that this node should take.

        These are free buckets with files here; all buckets of a lost node if some of its files are
        here (restored from a backup) and this node has no buckets yet; and other free buckets once
        they were free before (``free_before``), so that nodes with files come first."""
        claims = set(self.free & with_files)
        if not self.own:
            for each in self.lost - {self.node}:
                if (buckets := self.find_buckets(each)) & with_files:
                    claims |= buckets
        return frozenset(claims | (self.free if self.is_alone else self.free & free_before))

    def choose_gift(self, unused: Set[int]) -> tuple[str, list[int]] | None:
        """Return another node and buckets to give to it, or None, so that living nodes have equal numbers."""
        others = sorted(self.living & self.members - {self.node})
        if not others:
            return None
        counts = Counter(self.holders)
        poorest = min(others, key=lambda each: counts[each])
        surplus = counts[self.node] - math.ceil(BUCKETS / (len(others) + 1))
        lacking = BUCKETS // (len(others) + 1) - counts[poorest]
        given = sorted(unused)[: max(0, min(surplus, lacking))]
        return (poorest, given) if given else None


class Copy:
    """The part of a copy that this node keeps.

    ``node`` is the id of the node, the same after a restart; ``buckets`` are those that it keeps, as
    far as it knows."""

    def __init__(
        self,
        client: server.Client,
        group: str,
        node: str,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        find_address: Callable[[], str] = str,
        data_dir: Path | None = None,
    ) -> None:
        """Keep the buckets with files in ``data_dir``, even if the server has lost its data.

        ``find_address`` returns the address of this node's pages."""
        self._client = client
        self.group, self.node = group, node
        self._find_address = find_address
        self._member: Member | None = None
        self._data_dir = data_dir
        self._clock_s = clock_s
        self._give = client.register_script(_GIVE)
        self._held_at_s = -math.inf
        self.buckets: frozenset[int] = frozenset()
        self.paused: frozenset[int] = frozenset()  # of those that are being moved, see moving/
        self._free_before: frozenset[int] = frozenset()
        self._known: set[str] = set()
        self._kept_all: tuple[View, Set[int]] | None = None

    def hold(self) -> frozenset[int]:
        """Show about once a second that this node lives; return the buckets that it keeps.

        Raises NothingToKeepError, redis.RedisError, OSError."""
        if self._clock_s() - self._held_at_s < RENEW_S:
            return self.buckets
        reading.show_life(self._client, COPIES, self.group, self.node)
        view = self._look()
        buckets = (view.own | self._claim(view)) - self._give_away(view)
        if buckets != self.buckets:
            self._report(view, buckets)
        self.buckets = buckets
        self._free_before = view.free
        if not buckets and view.lost:
            raise self._refuse(view)
        self._held_at_s = self._clock_s()
        return buckets

    @property
    def received(self) -> frozenset[int]:
        """Return the buckets whose entries this node is to receive."""
        return self.buckets - self.paused

    def let_go(self) -> None:
        """Have the next ``hold`` read again which buckets this node keeps."""
        self._held_at_s = -math.inf

    def claim(self, streams: Iterable[str]) -> None:
        """Take over entries that were delivered to an earlier node for these streams and not acknowledged.

        At most one batch of each stream is taken over."""
        looked_at = sorted(streams)
        found = reading.find_pending(self._client, looked_at, self.group)
        for stream, nodes in zip(looked_at, found, strict=True):
            if nodes - {self.node.encode()}:
                self._client.xautoclaim(
                    stream, self.group, self.node, 0, count=MOST_CLAIMED, justid=True
                )

    def _look(self) -> View:
        members = find_members(self._client)
        if self._member is None:
            self._member = Member(self.group, self._find_address())
        if members.get(self.node) != self._member:
            value = orjson.dumps([self._member.group, self._member.address])
            try:
                self._client.hset(NODES, self.node, value)
            except redis.exceptions.OutOfMemoryError:
                logger.warning("the server is full: this node cannot be put on its list of nodes")
            members[self.node] = self._member
        ours = {name for name, each in members.items() if each.group == self.group}
        self._known |= ours
        return View(
            node=self.node,
            holders=find_holders(self._client, self.group),
            members=ours,
            living=find_living(self._client, self.group) | {self.node},
            is_alone=self._known == {self.node},  # a server may have lost its list
        )

    def _claim(self, view: View) -> frozenset[int]:
        if not view.free and (view.own or not view.lost):
            return frozenset()
        claims = view.choose_claims(self._find_files(), self._free_before)
        try:
            return self._move(view, claims, self.node)
        except redis.exceptions.OutOfMemoryError:
            # Somebody must empty the server; it is written when there is room.
            return claims if view.is_alone else frozenset()

    def _give_away(self, view: View) -> frozenset[int]:
        """Give buckets without calls to a node that has fewer buckets; return them."""
        if view.choose_gift(view.own) is None or self._kept_all == (view, view.own):
            return frozenset()
        gift = view.choose_gift(view.own - self._find_used(view.own))
        if gift is None:
            self._kept_all = (
                view,
                view.own,
            )  # it is not looked for again before something has changed
            return frozenset()
        given = self._move(view, gift[1], gift[0])
        logger.info("%d buckets without calls are given to node %s", len(given), gift[0])
        return given

    def _move(self, view: View, buckets: Iterable[int], node: str) -> frozenset[int]:
        words = [word for bucket in buckets for word in (bucket, view.holders[bucket] or "", node)]
        if not words:
            return frozenset()
        return frozenset(self._give([bucket_key(self.group)], words))

    def _find_files(self) -> frozenset[int]:
        """Return the buckets of which this node has files."""
        if self._data_dir is None:
            return frozenset()
        return frozenset(find_bucket(path.parent.name) for path in find_trace_files(self._data_dir))

    def _find_used(self, buckets: Iterable[int]) -> frozenset[int]:
        looked_at = sorted(buckets)
        streams = [log.stream_name(bucket) for bucket in looked_at]
        found = reading.find_groups(self._client, streams)
        delivered = {
            bucket
            for bucket, groups in zip(looked_at, found, strict=True)
            if self.group not in groups or groups[self.group].last_delivered != NEVER
        }
        return self._find_files() | delivered

    def _report(self, view: View, buckets: Set[int]) -> None:
        logger.info(
            "this node keeps %d of %d buckets of the copy %r", len(buckets), BUCKETS, self.group
        )
        if stray := self._find_files() - buckets - self.paused:
            others = sorted({f"{view.holders[each]}" for each in stray})
            logger.error(
                "this node has calls of %d buckets that others keep (%s): see extensions/cluster/README.md on moving"
                " organisations",
                len(stray),
                ", ".join(others),
            )

    def _refuse(self, view: View) -> NothingToKeepError:
        lost = " ".join(sorted(view.lost))
        return NothingToKeepError(
            f"nodes that are gone keep the copy {self.group!r}: {lost}. Start them again, restore a backup of"
            f" the calls here, or give up what only they have: `taximeter cluster forget` {lost}"
        )


def bucket_key(group: str) -> str:
    return f"{keys.BUCKETS}{group}"


def find_holders(client: server.Client, group: str) -> list[str | None]:
    """Return the node that keeps each bucket of a copy, None for no node. Raises redis.RedisError."""
    found = reading.read_hash(client, bucket_key(group), _parse_holder)
    return [found.get(str(bucket)) for bucket in range(BUCKETS)]


def _parse_holder(field: str, content: bytes) -> str:
    if field not in _BUCKET_FIELDS:
        raise RecordError("not the number of a bucket")
    return records.parse_node(content)


def find_members(client: server.Client) -> dict[str, Member]:
    """Return the nodes that keep parts of copies, by id. Raises redis.RedisError."""
    return reading.read_hash(client, NODES, records.parse_member)


def find_living(client: server.Client, group: str) -> set[str]:
    """Return the nodes of a copy that showed in the last seconds that they live. Raises redis.RedisError."""
    idle_ms = reading.find_consumers(client, COPIES, group)
    return {node for node, each in idle_ms.items() if each < 1000 * ALIVE_S}


def make_groups(client: server.Client, streams: Iterable[str], group: str) -> set[str]:
    """Create a consumer group of each stream that has none of this name.

    Return the keys that are not streams. This also works on a full server. Raises redis.RedisError."""
    looked_at = sorted(streams)
    found = reading.find_groups(client, looked_at)
    missing = [each for each, groups in zip(looked_at, found, strict=True) if group not in groups]
    pipeline = client.pipeline(transaction=False)
    for stream in missing:
        pipeline.xgroup_create(stream, group, id="0", mkstream=True)
    results = pipeline.execute(raise_on_error=False)
    for result in results:
        if isinstance(result, Exception) and not server.is_wrong_type(result):
            raise result
    return {
        stream
        for stream, result in zip(missing, results, strict=True)
        if isinstance(result, Exception)
    }


def load_node(data_dir: Path) -> str:
    """Return the id of this node, created for a new data directory. Raises OSError."""
    node = read_node(data_dir)
    if node is None:
        node = clock.new_id()
        replace_private(data_dir / NODE_FILE, node.encode())
    return node
