"""The rule about a file of the data directory: what a backup does with it."""

from dataclasses import dataclass
from typing import Literal

type Treatment = Literal["copied as a database", "copied", "copied first", "left out"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A rule for the files whose path in the data directory matches a pattern, part by part.

    ``migrations`` names the module that has those of a database, which a restore checks."""

    pattern: str
    treatment: Treatment
    about: str
    migrations: str | None = None

    @property
    def is_copied(self) -> bool:
        """Return whether a backup has these files."""
        return self.treatment != "left out"
