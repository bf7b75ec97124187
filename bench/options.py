"""The options of a run, which every section of it gets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers import Installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A quick run has fewer rounds and smaller databases: it shows that all works, and no figures to
    rely on. ``parent`` is where the data goes meanwhile, None for the temporary directory; ``parts`` of
    a section are measured, all of them where there are none; ``calls`` is how many the large database of
    pages has, None for the usual number."""

    is_quick: bool = False
    parent: Path | None = None
    peers: Sequence[Installed] = ()
    rounds: int | None = None
    parts: Sequence[str] = ()
    calls: int | None = None

    def choose[Number: (int, float)](self, usual: Number, quick: Number) -> Number:
        """Return the number for this kind of run."""
        return quick if self.is_quick else usual

    def choose_rounds(self, usual: int, quick: int) -> int:
        """Return how many rounds there are: as many as were asked for, or by the kind of run."""
        return self.choose(usual, quick) if self.rounds is None else self.rounds

    def wants(self, part: str) -> bool:
        """Say whether a part of a section is measured."""
        return not self.parts or part in self.parts

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder for data, and remove it with all that is in it."""
        with TemporaryDirectory(
            prefix="taximeter-bench-", dir=self.parent, ignore_cleanup_errors=True
        ) as name:
            yield Path(name)
