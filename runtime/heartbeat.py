"""The recorder's heartbeat: a small file that it rewrites every second.

Its instant is of the monotonic clock, which all processes share until the next boot and which does
not change when the clock is set.
"""

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson

from runtime.files import replace_private

FRESH_FOR_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The state of the recorder.

    ``waiting`` counts spool files not yet stored, ``stuck_organizations`` those whose database cannot
    be written at the moment, and ``unreadable`` spool files that were set aside."""

    pid: int
    beat_s: float
    waiting: int = 0
    stuck_organizations: int = 0
    unreadable: int = 0

    @staticmethod
    def path(data_dir: Path) -> Path:
        return data_dir / "recorder.json"

    def write(self, data_dir: Path) -> None:
        """Write the heartbeat into the data directory. Raises OSError."""
        replace_private(self.path(data_dir), orjson.dumps(asdict(self)))

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """Return the heartbeat in the data directory, or None if it is missing or cannot be read."""
        try:
            return cls(**orjson.loads(cls.path(data_dir).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def is_fresh(self) -> bool:
        """Return whether the recorder that wrote this heartbeat still runs, and wrote it recently."""
        return 0 <= time.monotonic() - self.beat_s <= FRESH_FOR_S and _exists(self.pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
