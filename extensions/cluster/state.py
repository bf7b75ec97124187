"""``cluster.json``: the state of a node in its cluster, for ``/healthz`` and ``/metrics``.

The process ``cluster`` rewrites it every second. Its instant is of the monotonic clock, as in the
recorder's heartbeat."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson

from runtime.extension_values import Gauge, Health
from runtime.files import replace_private
from runtime.heartbeat import FRESH_FOR_S
from runtime.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The state of a node.

    ``failing`` names the parts of its work that fail, ``unshipped`` counts the calls in its spool that
    the server does not have, ``in_flight`` calls that have not ended, ``lag`` entries that its copy
    has not received, and ``unserved`` organisations whose calls are on no living node. Its copy has
    received what the server had at ``level_s``."""

    beat_s: float
    failing: Sequence[str] = ()
    unshipped: int | None = None
    in_flight: int | None = None
    lag: int | None = None
    unserved: int = 0
    level_s: float | None = None

    def write(self, data_dir: Path) -> None:
        """Write the state into the data directory. Raises OSError."""
        replace_private(data_dir / "cluster.json", orjson.dumps(asdict(self)))

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """Return the state in the file, or None if it is missing or older than some seconds."""
        try:
            state = cls(**orjson.loads((data_dir / "cluster.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return state if 0 <= time.monotonic() - state.beat_s <= FRESH_FOR_S else None


def read_health(node: Node, data_dir: Path) -> Health | None:
    """Return the state of this machine in its cluster, None if it is in no cluster."""
    if node.copy is None:
        return None
    state = ClusterState.read(data_dir)
    if state is None:
        return Health(reasons=["the cluster process is not running"])
    reasons = [f"the {each} of the cluster fails: see the server log" for each in state.failing]
    if state.unserved:
        noun = "organisation" if state.unserved == 1 else "organisations"
        reasons.append(f"no live node has the calls of {state.unserved} {noun}")
    document = {
        "failing": state.failing,
        "unshipped": state.unshipped,
        "in_flight": state.in_flight,
        "lag": state.lag,
    }
    gauges = list(_make_gauges(state, has_pages=node.parts != {"proxy"}))
    return Health(reasons=reasons, document={"cluster": document}, gauges=gauges)


def _make_gauges(state: ClusterState, *, has_pages: bool) -> Iterator[Gauge]:
    """Yield the gauges of a node. ``has_pages``: calls in flight are counted by the pages' own metrics."""
    yield Gauge(
        "taximeter_cluster_failing_parts",
        "Parts of the node's work for its cluster that fail, 0 when all is well.",
        len(state.failing),
    )
    for name, help_text, value in (
        (
            "taximeter_cluster_unshipped_files",
            "Calls in the spool that the cluster's server does not have.",
            state.unshipped,
        ),
        (
            "taximeter_cluster_lag_entries",
            "Entries of the log that the copy of this node does not have.",
            state.lag,
        ),
        (
            "taximeter_in_flight",
            "Calls that have not ended.",
            None if has_pages else state.in_flight,
        ),
    ):
        if value is not None:
            yield Gauge(name, help_text, value)
