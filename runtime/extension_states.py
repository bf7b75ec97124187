"""``extensions.json``: how extensions of others do, for ``/healthz`` and ``taximeter doctor``.

The process that runs them writes it. It also says which of them is being called: whoever is, when that
process ends, has ended it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson

from runtime.files import replace_private

NAME = "extensions.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionState:
    """An extension, where it is from, and why it is left out, None where it is not."""

    name: str
    origin: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionStates:
    """All extensions of others. ``calling`` is the name of the one that is being called, and for what."""

    extensions: Sequence[ExtensionState] = ()
    calling: tuple[str, str] | None = None

    def write(self, data_dir: Path) -> None:
        """Replace the file. Raises OSError."""
        replace_private(data_dir / NAME, orjson.dumps(asdict(self)))

    @classmethod
    def read(cls, data_dir: Path) -> Self:
        """Return what the file says, no extensions where there is none that can be read."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = orjson.loads((data_dir / NAME).read_bytes())
            calling = found["calling"]
            return cls(
                extensions=[ExtensionState(**each) for each in found["extensions"]],
                calling=None if calling is None else (calling[0], calling[1]),
            )
        return cls()


def forget(data_dir: Path) -> None:
    """Remove what an earlier service left. Raises OSError."""
    (data_dir / NAME).unlink(missing_ok=True)
