"""The file that tells the proxies which budgets are used up: ``budgets.json`` in the data directory.

The recorder replaces it when a budget is reached, and when one is no longer. A proxy looks every quarter of
a second whether it is another file, so a call costs a look into a dictionary, and any number of proxies read
the same file. It holds only budgets that refuse. Each has its period, by the clock of the machine: a proxy
stops refusing at its end by itself, also while the recorder is away.
"""

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
    """A budget that is used up. ``subject_id`` is the endpoint or the organisation that it is for; the
    period begins and ends at seconds since 1970. ``resets_at`` is its end for people."""

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
    """Return the content of a file with these budgets."""
    return orjson.dumps([asdict(each) for each in reached])


class BudgetFile:
    """The file of one data directory, or another one of its kind."""

    def __init__(self, data_dir: Path, name: str = NAME) -> None:
        self._path = data_dir / name

    def write(self, reached: Sequence[ReachedBudget]) -> None:
        """Replace the file. Raises OSError."""
        replace_private(self._path, pack(reached))

    def read(self) -> Sequence[ReachedBudget]:
        """Return the budgets in the file, none where there is no file that can be read."""
        try:
            return [ReachedBudget(**each) for each in orjson.loads(self._path.read_bytes())]
        except (OSError, ValueError, TypeError):
            return ()

    def copy(self) -> bytes:
        """Return the content for another data directory."""
        try:
            return self._path.read_bytes()
        except OSError:
            return NONE

    def paste(self, content: bytes) -> None:
        """Replace the file by a copy; without budgets there is none. Raises OSError."""
        if content == NONE:
            self._path.unlink(missing_ok=True)
        else:
            replace_private(self._path, content)

    def identify(self) -> tuple[int, int] | None:
        """Return what another version of the file differs in, None while there is no file."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - four times a second
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns
