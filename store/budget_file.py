"""``budgets.json`` in the data directory, which tells the proxies which budgets are used up.

The recorder replaces it when a budget is reached or is no longer reached. A proxy checks four times
a second whether the file was replaced, so a call costs one dictionary look-up, and any number of
proxies read the same file. It holds only budgets that refuse calls. Each has its period by the
clock of the machine: a proxy stops refusing at the end of the period by itself, even if the
recorder is not running."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from metering.budget_periods import Period
from runtime.files import replace_private
from store.control.records import Id, Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedBudget:
    """A budget that is used up. ``subject_id`` is the id of its endpoint or organisation.

    ``starts_s`` and ``resets_s`` are the period's bounds in seconds since 1970; ``resets_at`` is its
    end as an ISO instant."""

    organization_id: Id
    subject_id: Id
    period: Period
    starts_s: float
    resets_s: float
    resets_at: Instant

    @property
    def is_of_organization(self) -> bool:
        return self.subject_id == self.organization_id


NONE = b"[]"


NAME = "budgets.json"


def pack(reached: Sequence[ReachedBudget]) -> bytes:
    """Return the content of a budget file: the budgets as JSON."""
    return orjson.dumps([asdict(each) for each in reached])


class BudgetFile:
    """The budget file of a data directory, or another file of the same format."""

    def __init__(self, data_dir: Path, name: str = NAME) -> None:
        self._path = data_dir / name

    def write(self, reached: Sequence[ReachedBudget]) -> None:
        """Replace the file by one with the budgets ``reached``. Raises OSError."""
        replace_private(self._path, pack(reached))

    def read(self) -> Sequence[ReachedBudget]:
        """Return the budgets in the file, an empty sequence if there is no file that can be read."""
        try:
            return [ReachedBudget(**each) for each in orjson.loads(self._path.read_bytes())]
        except (OSError, ValueError, TypeError):
            return ()

    def copy(self) -> bytes:
        """Return the content of the file, to be given to ``paste`` for another data directory."""
        try:
            return self._path.read_bytes()
        except OSError:
            return NONE

    def paste(self, content: bytes) -> None:
        """Replace the file by ``content`` from ``copy``; without budgets the file is removed. Raises
        OSError."""
        if content == NONE:
            self._path.unlink(missing_ok=True)
        else:
            replace_private(self._path, content)

    def identify(self) -> tuple[int, int] | None:
        """Return the inode and modification time in ns, which differ after each write, or None."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - four times a second
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns
