"""Writing ``nodes.json``, by which the node with the pages knows where calls are."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

from extensions.cluster import copies, reading, server
from extensions.cluster.keys import COPIES
from extensions.cluster.page_nodes import PageNode, PageNodes
from runtime.setting_values import Address
from store.control.database import ControlDatabase
from store.control.people import list_organization_ids

ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - to know it when it is set


class Whereabouts:
    """Rewrites ``nodes.json`` of a data directory after each change."""

    def __init__(self, data_dir: Path, client: server.Client, node: str, group: str) -> None:
        self._data_dir = data_dir
        self._client = client
        self._node, self._group = node, group
        self.found: PageNodes | None = None

    def run_round(self) -> bool:
        """Read from Redis which nodes keep calls, and write ``nodes.json`` if they have changed.

        Returns whether they have. Raises redis.RedisError, OSError."""
        members = copies.find_members(self._client)
        groups = sorted({each.group for each in members.values()})
        (known,) = reading.find_groups(self._client, [COPIES])
        living = {
            name
            for group in groups
            if group in known
            for name in copies.find_living(self._client, group)
        }
        found = PageNodes(
            here=self._node,
            group=self._group,
            nodes=[
                PageNode(id=name, group=each.group, address=each.address, is_alive=name in living)
                for name, each in sorted(members.items())
            ],
            holders={group: copies.find_holders(self._client, group) for group in groups},
        )
        if found == self.found:
            return False
        found.write(self._data_dir)
        self.found = found
        return True


def count_unserved(nodes: PageNodes, control: ControlDatabase) -> int:
    """Return the number of organisations whose calls are on no living node. Raises sqlite3.Error."""
    with control.reading() as db:
        ids = list_organization_ids(db)
    return sum(not nodes.is_served(each) for each in ids)


def find_address(listen: Address, url: str) -> str:
    """Return the address of this node's pages for other nodes. Raises OSError.

    It is the listen address, or if that is any interface, the address from which the node reaches the
    Redis server."""
    if listen.host not in ANY_ADDRESS:
        return str(listen)
    first = urlsplit(url).netloc.rpartition("@")[2].split(",")[0]
    host = urlsplit(f"//{first}").hostname
    if host is None:  # a Unix socket
        return f"127.0.0.1:{listen.port}"
    (family, kind, protocol, _, target), *_ = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    with socket.socket(family, kind, protocol) as found:
        found.connect(target)  # sends nothing
        return str(Address(found.getsockname()[0], listen.port))
