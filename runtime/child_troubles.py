"""``children.json``: the processes that are down, for ``/healthz`` and ``taximeter doctor``.

The supervisor writes it; while all processes run there is no such file.

The last lines are the process's own standard error. They name paths of this machine, so the file is
readable by its owner only, and `/healthz` shows them only to people at this machine.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from runtime.files import replace_private

MAX_LINES = 5
MAX_LINE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTrouble:
    """A process of the service that ended and is not ready again.

    ``deaths`` counts its deaths since it last lived for a while; ``status`` is its last exit status,
    negative for a signal."""

    name: str
    status: int
    deaths: int
    pause_s: float
    last_lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = f"was killed by signal {-self.status}" if self.status < 0 else f"exited with status {self.status}"  # fmt: skip
        times = f" ({self.deaths} times in a row)" if self.deaths > 1 else ""
        return f"the {self.name} process {how}{times} and is restarted in {self.pause_s:g} s"


def write_troubles(data_dir: Path, troubles: Iterable[ChildTrouble]) -> None:
    """Replace the file with these processes; without any, remove it. Raises OSError."""
    path = _path(data_dir)
    document = [asdict(trouble) for trouble in troubles]
    if not document:
        path.unlink(missing_ok=True)
        return
    replace_private(path, orjson.dumps(document))


def read_troubles(data_dir: Path) -> list[ChildTrouble]:
    """Return the processes that are down; empty if the file is missing or cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [
            ChildTrouble(**item | {"last_lines": tuple(item["last_lines"])})
            for item in orjson.loads(_path(data_dir).read_bytes())
        ]
    return []


def trim_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the last few of ``lines``, each cut to a length that fits a status page."""
    return tuple(line[:MAX_LINE_CHARACTERS] for line in list(lines)[-MAX_LINES:])


def _path(data_dir: Path) -> Path:
    return data_dir / "children.json"
