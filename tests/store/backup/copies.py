"""Data directories and their backups, compared by everything that is in them."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from metering.entry import UsageLogEntry
from store.backup.backup import Report, make_backup
from store.backup.manifest import Manifest, read_manifest
from store.backup.restore import restore_backup
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.dump import dump_lines

type Contents = dict[str, list[str] | bytes]


@dataclass(slots=True)
class Place:
    """A data directory. ``organizations`` has the id of each by its name."""

    data_dir: Path
    organizations: dict[str, str] = field(default_factory=lambda: {"a": "", "b": ""})

    def traces(self, name: str) -> Path:
        return trace_path(self.data_dir, self.organizations[name])

    def insert(self, name: str, *entries: UsageLogEntry) -> None:
        with TraceDatabase(self.traces(name)) as traces:
            traces.insert(entries)


@dataclass(slots=True)
class Copy:
    """The backup of a place."""

    place: Place
    folder: Path
    time_ns: Callable[[], int]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def make(self) -> Report:
        return make_backup(self.place.data_dir, self.folder, time_ns=self.time_ns)

    @property
    def manifest(self) -> Manifest:
        manifest = read_manifest(self.folder)
        assert manifest is not None
        return manifest

    def path(self, name: str) -> Path:
        """Return where the copy of a file is."""
        return self.folder / self.manifest.files[name].folder / name

    def restore(self) -> Path:
        """Return a new data directory with what was restored."""
        target = self.folder.parent / f"restored-{next(self._numbers)}"
        target.mkdir(mode=0o700)
        restore_backup(self.folder, target)
        return target


def read_contents(data_dir: Path) -> Contents:
    """Return all rows of all databases, and the other files, without what belongs to processes."""
    found: Contents = {}
    for path in sorted(data_dir.rglob("*")):
        name = str(path.relative_to(data_dir))
        if path.is_dir() or path.suffix == ".lock" or path.name.endswith(("-wal", "-shm")):
            continue
        if path.suffix == ".db":
            with closing(sqlite3.connect(path)) as db:
                found[name] = list(dump_lines(db))
        else:
            found[name] = path.read_bytes()
    return found
