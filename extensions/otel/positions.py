"""``otel.db``: the position up to which each collector has acknowledged calls, by organisation."""

from pathlib import Path

from extensions.otel import FILE
from store.following import follower
from store.following.positions import Positions, make_migrations

migrations = make_migrations("otel")


def open_positions(data_dir: Path) -> Positions:
    """Return the positions of all collectors. Raises sqlite3.Error and OSError."""
    return Positions(data_dir / FILE, migrations)


def begin(data_dir: Path, collector: str) -> None:
    """Store the current positions before a collector is used for the first time.

    Raises sqlite3.Error, OSError."""
    with open_positions(data_dir) as positions:
        follower.begin(data_dir, positions, collector)
