"""``extensions.json``: the state of third-party extensions, for ``/healthz`` and ``taximeter doctor``.

The process that runs them writes it. It also names the extension that is being called, so that if the
process dies, that extension is known to have ended it."""

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
    """The state of an extension: its origin, and why it is disabled, None if it is not."""

    name: str
    origin: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionStates:
    """The states of all third-party extensions. ``calling`` names the one being called, and the hook."""

    extensions: Sequence[ExtensionState] = ()
    calling: tuple[str, str] | None = None

    def write(self, data_dir: Path) -> None:
        """Replace the file. Raises OSError."""
        replace_private(data_dir / NAME, orjson.dumps(asdict(self)))

    @classmethod
    def read(cls, data_dir: Path) -> Self:
        """Return the states in the file, without extensions if it is missing or cannot be read."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = orjson.loads((data_dir / NAME).read_bytes())
            calling = found["calling"]
            return cls(
                extensions=[ExtensionState(**each) for each in found["extensions"]],
                calling=None if calling is None else (calling[0], calling[1]),
            )
        return cls()


def forget(data_dir: Path) -> None:
    """Remove the file that an earlier service left. Raises OSError."""
    (data_dir / NAME).unlink(missing_ok=True)
