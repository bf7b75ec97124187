"""``cluster.json``: how a node does in its cluster, for ``/healthz`` and ``/metrics``.

The process ``cluster`` rewrites it every second. Its instant is of the monotonic clock, as that of the
recorder's heartbeat.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson

from runtime.heartbeat import FRESH_FOR_S
from runtime.private_file import replace_private


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The state of a node. ``failing`` names the parts of its work that fail, ``unshipped`` counts the
    calls in its spool that the server does not have, ``in_flight`` those that have not ended, ``lag`` the
    entries that its copy does not have, and ``unserved`` the organisations whose calls are on no node that
    lives.
    What the server had at ``level_s``, its copy has."""

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
        """Read the state, or return None when there is none of the last seconds."""
        try:
            state = cls(**orjson.loads((data_dir / "cluster.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return state if 0 <= time.monotonic() - state.beat_s <= FRESH_FOR_S else None
