"""The copies of all calls, for rooms outside the cluster. See ``store.copies.Copies``."""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from extensions.cluster import erasure_copies
from extensions.cluster.erasure_copies import OF_PROXY, ErasureCopy
from extensions.cluster.page_nodes import PageNodes, read_node
from extensions.cluster.state import ClusterState
from store.control.erasures import Erasure
from store.copies import CopyProgress, Progress

PATIENCE_S, LOOK_S = 60.0, 0.1


class KnownCopies:
    """The copies, as known from the files of this node and its ``control.db``."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._nodes = PageNodes.read(data_dir)

    def is_elsewhere(self, organization_id: str) -> bool:
        """Return whether only other nodes keep the calls of an organisation."""
        return self._nodes is not None and self._nodes.is_elsewhere(organization_id)

    def list_others(self) -> Sequence[str]:
        """Return the address of each other node that keeps calls, with the name of its copy."""
        others = [] if self._nodes is None else self._nodes.list_others()
        return [f"{each.address} ({each.group})" for each in others]

    def wait_until_whole(self) -> bool:
        """Wait until this node has received all that was on the server at the call.

        Return False on a timeout. A node restored from a backup gets what its copy has not
        acknowledged, and nothing else."""
        if read_node(self._data_dir) is None:
            return True
        begun_s = time.monotonic()
        while (state := ClusterState.read(self._data_dir)) is not None:
            if state.level_s is not None and state.level_s >= begun_s:
                return True
            if time.monotonic() >= begun_s + PATIENCE_S:
                break
            time.sleep(LOOK_S)
        return False

    def note_order(self, erasure: Erasure, db: sqlite3.Connection) -> None:
        """Store which nodes keep the calls of an order, so that it cannot end without them.

        That also holds if the server loses its data."""
        for copy, node in self._find_holders(erasure.organization_id).items():
            if node is not None:
                state = ErasureCopy(erasure_id=erasure.id, node=node, copy=copy)
                erasure_copies.write(db, state)

    def find_progress(self, erasure: Erasure, db: sqlite3.Connection) -> Progress:
        """Return the progress of each copy with an order to erase calls.

        It is read from ``control.db``, and from the file of known nodes which of them are up."""
        states = erasure_copies.list_of(db, erasure.id)
        needed = erasure_copies.find_needed(states, self._find_holders(erasure.organization_id))
        nodes = self._nodes
        found = {} if nodes is None else {each.id: each for each in nodes.nodes}
        here = None if nodes is None else nodes.here
        living = {each.id for each in found.values() if each.is_alive or each.id == here}
        copies = [
            CopyProgress(
                copy=each.copy,
                node=each.node,
                address=found[each.node].address if each.node in found else None,
                is_alive=each.node in living,
                entries=each.entries,
                erased_at=each.erased_at,
                settled_at=each.settled_at,
            )
            for each in needed
        ]
        unshipped = [
            each.node for each in states if each.copy == OF_PROXY and each.settled_at is None
        ]
        return Progress(erasure=erasure, copies=copies, unshipped=unshipped)

    def _find_holders(self, organization_id: str) -> dict[str, str | None]:
        return {} if self._nodes is None else self._nodes.find_holders(organization_id)
