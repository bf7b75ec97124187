"""``nodes.json``: the nodes that keep the calls of each organisation, for the web process.

The process ``cluster`` of the node with the role ``web`` rewrites it after each change. A node keeps
the calls of whole buckets; each group keeps every bucket once, so there are as many copies as groups.
While the Redis server is away the file stays unchanged."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

import orjson

from extensions.cluster.buckets import find_bucket
from extensions.cluster.settings import NODE_FILE, NODES_FILE
from runtime.files import replace_private

FIRST_BYTE_S = 5.0  # for a node to begin its response, while another copy can be read instead
REFUSED = "statement_refused"  # the code of the error of a node that does not respond


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNode:
    """A node with calls. ``address`` is ``host:port``; ``is_alive``: it showed in the last seconds that it
    lives."""

    id: str
    group: str
    address: str
    is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNodes:
    """The nodes with calls, as known to the node ``here``.

    ``group`` is the node's own group, whose copy is the first one; ``holders`` has for each group the
    id of the node that keeps each bucket."""

    here: str
    group: str
    nodes: Sequence[PageNode] = ()
    holders: Mapping[str, Sequence[str | None]] = field(default_factory=dict)

    def is_here(self, organization_id: str) -> bool:
        """Return whether this node keeps the calls of an organisation."""
        return self.here in self.find_holders(organization_id).values()

    def is_first(self, node: str, organization_id: str) -> bool:
        """Return whether a node keeps the first copy of the calls of an organisation."""
        holders = self.holders.get(self.group)
        return holders is not None and holders[find_bucket(organization_id)] == node

    def is_elsewhere(self, organization_id: str) -> bool:
        """Return whether only other nodes keep the calls of an organisation."""
        holders = set(self.find_holders(organization_id).values()) - {None}
        return bool(holders) and self.here not in holders

    def find(self, organization_id: str) -> list[PageNode]:
        """Return the other nodes that keep the calls of an organisation, in the order to ask them.

        Living nodes come first, and among them the node with the first copy."""
        holders = self.find_holders(organization_id).values()
        found = [each for each in self.nodes if each.id in holders and each.id != self.here]
        return sorted(found, key=lambda each: (not each.is_alive, self.is_copy(each), each.group))

    def find_holders(self, organization_id: str) -> dict[str, str | None]:
        """Return the id of the node that keeps an organisation's calls, for each copy."""
        bucket = find_bucket(organization_id)
        return {group: each[bucket] for group, each in self.holders.items()}

    def list_others(self) -> list[PageNode]:
        """Return the other nodes that keep calls, in the order of their groups."""
        holders = {holder for each in self.holders.values() for holder in each}
        found = [each for each in self.nodes if each.id in holders and each.id != self.here]
        return sorted(found, key=lambda each: (self.is_copy(each), each.group, each.address))

    def is_served(self, organization_id: str) -> bool:
        """Return whether a living node keeps the calls of an organisation."""
        return self.is_here(organization_id) or any(
            each.is_alive for each in self.find(organization_id)
        )

    def is_copy(self, node: PageNode) -> bool:
        """Return whether a node belongs to another copy than the first."""
        return node.group != self.group

    def write(self, data_dir: Path) -> None:
        """Replace the file. Raises OSError."""
        replace_private(data_dir / NODES_FILE, orjson.dumps(asdict(self)))

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """Return the nodes in the file, or None if it is missing or cannot be read."""
        try:
            found = orjson.loads((data_dir / NODES_FILE).read_bytes())
            nodes = [PageNode(**each) for each in found.pop("nodes")]
            return cls(nodes=nodes, **found)
        except (OSError, ValueError, TypeError, KeyError):
            return None


class PageNodesFile:
    """The file ``nodes.json`` of a data directory, read again after each change."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._seen: tuple[int, int] | None = None
        self._found: PageNodes | None = None

    def read(self) -> PageNodes | None:
        """Return the nodes in the file, or None if it is missing."""
        try:
            status = os.stat(self._data_dir / NODES_FILE)  # noqa: PTH116 - for each page
        except OSError:
            self._seen, self._found = None, None
            return None
        seen = status.st_ino, status.st_mtime_ns
        if seen != self._seen:
            self._found = PageNodes.read(self._data_dir)
            self._seen = seen
        return self._found


def read_node(data_dir: Path) -> str | None:
    """Return the id of the node with this data directory, None before it has one."""
    try:
        return (data_dir / NODE_FILE).read_text().strip()
    except OSError:
        return None
