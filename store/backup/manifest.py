"""``manifest.json``: what a backup consists of.

A backup is a folder with the manifest and folders of files, one for each run that copied something. The
manifest names the file of each path of the data directory. It is replaced in one step, after all that it
names is on the disk, so a run that is killed leaves the backup as it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import orjson
from pydantic import TypeAdapter, ValidationError

from runtime.errors import ControlError
from store.backup.contents import find_rule
from store.backup.copying import write_file

NAME = "manifest.json"
FORMAT = 1


class BackupError(ControlError):
    """A backup that cannot be made or restored. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a backup. ``folder`` is that of the run that copied it, ``as_of`` its beginning.

    ``migrations`` are those of a database; ``fingerprint`` is what it was copied from, where that was
    certain."""

    folder: str
    as_of: str
    size: int
    sha256: str
    migrations: Sequence[str] = ()
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of a backup by their paths in the data directory.

    ``service_id`` tells the data directories of different services apart. ``finished_at`` is None until
    the first run has ended."""

    service_id: str
    taximeter: str
    sqlite: str
    started_at: str
    finished_at: str | None = None
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Replace the manifest of a backup. Raises OSError."""
        write_file(folder / NAME, orjson.dumps(self, option=orjson.OPT_INDENT_2))


_FORMAT = TypeAdapter(Manifest)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a backup, None where there is none. Raises BackupError, OSError."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        document = orjson.loads(content)
        version = document.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise BackupError(
                f"{folder} is a backup of Taximeter {document.get('taximeter')}, in a newer format than"
                " this version knows: use that version, or a newer one"
            )
        manifest = _FORMAT.validate_python(document)
    except (ValueError, AttributeError, ValidationError) as error:
        raise BackupError(f"{path} cannot be read as the manifest of a backup") from error
    for name, stored in manifest.files.items():
        _check_place(path, name, stored)
    return manifest


def _check_place(path: Path, name: str, stored: StoredFile) -> None:
    """Check that a file is one that a backup has, so that no manifest names a place elsewhere."""
    parts = PurePosixPath(name).parts
    rule = None if {"..", "."} & {*parts, stored.folder} else find_rule(PurePosixPath(name))
    if rule is None or rule.treatment == "left out" or "/" in stored.folder or not stored.folder:
        raise BackupError(f"{path} names a file that is not part of a backup: {name}")
