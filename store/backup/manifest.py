"""``manifest.json``: the files that a backup consists of.

A backup is a folder with the manifest and folders of files, one for each run that copied something.
The manifest names the stored file of each path of the data directory. It is replaced in one step,
after all files in it are on the disk, so a run that is killed leaves the earlier backup intact.

A manifest is not trusted, since others may be able to write it: its paths must be inside the backup
and the data directory, be of files that a backup has, and occur once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from runtime import clock
from runtime.errors import ControlError
from store.backup.contents import find_rule, is_plain
from store.backup.copying import DamagedError, open_file, write_file

NAME = "manifest.json"
FORMAT = 1
MAX_BYTES = 100_000_000  # of some 300,000 files
_SHOWN = 100


class BackupError(ControlError):
    """A backup that cannot be made or restored. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a backup. ``folder`` is the folder of the run that copied it, ``as_of`` the start of that
    run.

    ``migrations`` are those of a database. ``fingerprint`` is that of the source, None if the source
    had just been written."""

    folder: str
    as_of: str
    size: int
    sha256: str
    migrations: Sequence[str] = ()
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of a backup by their paths in the data directory.

    ``service_id`` identifies the service whose data directory it is. ``finished_at`` is None until the
    first run has ended."""

    service_id: str
    taximeter: str
    sqlite: str
    started_at: str
    finished_at: str | None = None
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write the manifest into the backup's ``folder``, in place of an earlier one. Raises OSError."""
        write_file(folder / NAME, orjson.dumps(self, option=orjson.OPT_INDENT_2))


_FORMAT = TypeAdapter(Manifest)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of the backup in ``folder``, or None if there is none. Raises BackupError,
    OSError."""
    path = folder / NAME
    try:
        content = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        manifest = _parse(folder, orjson.loads(content))
    # OverflowError: of an instant that UTC has no date for.
    except (ValueError, AttributeError, OverflowError, ValidationError) as error:
        raise BackupError(f"{path} cannot be read as the manifest of a backup") from error
    _check_files(path, manifest.files)
    return manifest


def _read(path: Path) -> bytes:
    try:
        fd = open_file(path)
    except DamagedError as error:
        raise BackupError(str(error)) from error
    with os.fdopen(fd, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BackupError(f"{path} is larger than the manifest of a backup can be")
    return content


def _parse(folder: Path, document: Any) -> Manifest:
    """Return the manifest in a parsed JSON ``document``. Raises BackupError if its format is a newer one.

    Raises ValueError, AttributeError, OverflowError or ValidationError for any other document."""
    version, program = document.get("format"), document.get("taximeter")
    if type(version) is not int or version < 1 or not _is_line(program):
        raise ValueError("no manifest")
    if version > FORMAT:
        raise BackupError(
            f"{folder} is a backup of Taximeter {program}, in a newer format than this version knows: use"
            " that version, or a newer one"
        )
    manifest = _FORMAT.validate_python(document)
    if not _is_line(manifest.service_id):
        raise ValueError("no service")
    for at in (manifest.started_at, manifest.finished_at):
        if at is not None:
            clock.parse_instant(at)
    return manifest


def _is_line(text: object) -> bool:
    return isinstance(text, str) and text.isprintable() and len(text) <= _SHOWN


def _check_files(path: Path, files: Mapping[str, StoredFile]) -> None:
    """Check that each file of a manifest is one that a backup may have, and occurs once. Raises
    BackupError."""
    seen = set[str]()
    for name, stored in files.items():
        place = PurePosixPath(name)
        rule = find_rule(place)
        is_of_a_backup = rule is not None and rule.is_copied and is_plain(stored.folder)
        if not is_of_a_backup or str(place) != name:
            raise BackupError(
                f"{path} names a file that is not part of a backup: {ascii(name[:_SHOWN])[1:-1]}"
            )
        if name.casefold() in seen:  # which some file systems take for the same
            raise BackupError(f"{path} names a file twice: {name}")
        seen.add(name.casefold())
