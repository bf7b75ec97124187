"""The options of a benchmark run, which every section gets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers import Installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a run.

    A quick run has fewer rounds and smaller databases: it shows that all works, but its figures are
    not reliable. ``parent`` is the folder for temporary data, None for the system's; ``parts`` are the
    parts of a section to measure, empty for all; ``calls`` is the size of the large database of pages,
    None for the usual one."""

    is_quick: bool = False
    parent: Path | None = None
    peers: Sequence[Installed] = ()
    rounds: int | None = None
    parts: Sequence[str] = ()
    calls: int | None = None

    def choose[Number: (int, float)](self, usual: Number, quick: Number) -> Number:
        """Return ``quick`` for a quick run, otherwise ``usual``."""
        return quick if self.is_quick else usual

    def choose_rounds(self, usual: int, quick: int) -> int:
        """Return the number of rounds: the option if given, otherwise ``quick`` or ``usual``."""
        return self.choose(usual, quick) if self.rounds is None else self.rounds

    def wants(self, part: str) -> bool:
        """Return whether a part of a section is to be measured."""
        return not self.parts or part in self.parts

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder for data, and remove it with its content afterwards."""
        with TemporaryDirectory(
            prefix="taximeter-bench-", dir=self.parent, ignore_cleanup_errors=True
        ) as name:
            yield Path(name)
