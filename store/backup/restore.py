"""Restoring of a backup into an empty data directory.

All files are copied into a folder inside the data directory, checked, and then moved into place,
``control.db`` last. So a directory with a ``control.db`` has the whole backup, and the next restore
removes what an interrupted one has left.

The content of databases in a backup is trusted, nothing else: no file outside is read or written,
and a database with triggers, which would run when the service writes, is refused."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath

from runtime.locks import LockHeldError, ProcessLock
from store import before_release, database
from store.backup import contents, copying
from store.backup.copying import DamagedError
from store.backup.manifest import BackupError, Manifest, StoredFile, read_manifest
from store.migration_status import find_unknown, list_applied

SERVICE_LOCK = "up.lock"
_INTERRUPTED = frozenset({contents.RESTORING, "spool", "traces"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a restore. ``waiting`` counts the calls that the service will record when it starts."""

    as_of: str
    organizations: int
    databases: int
    waiting: int
    bytes: int


def restore_backup(folder: Path, data_dir: Path) -> Restored:
    """Restore a backup into an existing, empty data directory.

    Raises BackupError, sqlite3.Error or OSError; the directory has no ``control.db`` then."""
    if data_dir.resolve().is_relative_to(folder.resolve()):
        raise BackupError(f"{data_dir} is within the backup: choose another data directory")
    manifest = read_manifest(folder)
    if manifest is None:
        raise BackupError(f"{folder} has no backup: name the folder that `taximeter backup` wrote")
    if manifest.finished_at is None:
        raise BackupError(f"the backup in {folder} was never finished: make it again")
    if contents.CONTROL not in manifest.files:
        raise BackupError(f"the backup in {folder} has no {contents.CONTROL}: use another one")
    _check_versions(folder, manifest)
    with _locked(data_dir):
        _clear(data_dir)
        draft = data_dir / contents.RESTORING
        copying.make_folder(draft)
        for name, stored in manifest.files.items():
            _restore_file(folder, draft, PurePosixPath(name), stored)
        copying.settle_folders(draft)
        _put_in_place(data_dir, draft)
    return _describe(manifest)


def _check_versions(folder: Path, manifest: Manifest) -> None:
    """Check that this version knows the database migrations of a backup. Raises BackupError."""
    for name, stored in manifest.files.items():
        rule = contents.find_rule(PurePosixPath(name))
        if rule is None or rule.migrations is None:
            continue
        known = import_module(rule.migrations).migrations
        origin = before_release.find_origin(stored.migrations)
        if origin == "an earlier one":
            raise BackupError(
                f"the backup in {folder} was made by an earlier Taximeter: restore it with that of commit"
                f" {before_release.COMMIT}, and {before_release.ADVICE}"
            )
        if origin == "a release" and find_unknown(stored.migrations, known):
            raise BackupError(
                f"the backup in {folder} was made by a newer Taximeter ({manifest.taximeter}): install"
                " that version, or a newer one, and restore it with that"
            )


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Hold the lock that keeps services from starting on the directory. Raises BackupError, OSError."""
    try:
        lock = ProcessLock(data_dir / SERVICE_LOCK)
    except LockHeldError as error:
        raise BackupError(
            f"process {error.pid or 'unknown'} uses {data_dir.absolute()}: stop it, or choose another"
            " directory with --data-dir"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _clear(data_dir: Path) -> None:
    """Remove the files of an interrupted restore. Raises BackupError if the directory has other files."""
    names = {path.name for path in data_dir.iterdir()} - {SERVICE_LOCK, "lost+found"}
    was_interrupted = contents.RESTORING in names and names <= _INTERRUPTED
    if names and not was_interrupted:
        raise BackupError(
            f"{data_dir} is not empty (it has {min(names)}): name an empty directory with --data-dir or"
            " TAXIMETER_DATA_DIR"
        )
    for name in sorted(names, key=lambda name: name == contents.RESTORING):  # the sign goes last
        shutil.rmtree(data_dir / name)


def _restore_file(folder: Path, draft: Path, path: PurePosixPath, stored: StoredFile) -> None:
    """Copy a file and check it. Raises BackupError, sqlite3.Error, OSError."""
    source, target = folder / stored.folder / path, draft / path
    advice = "the backup is damaged: use another one"
    if not source.parent.resolve().is_relative_to(folder.resolve()):
        raise BackupError(f"{source} is outside of the backup, by a link: {advice}")
    try:
        copied = copying.copy_file(source, target, stored.size)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BackupError(f"{source} is missing: {advice}") from error
    except DamagedError as error:
        raise BackupError(f"{error}: {advice}") from error
    if (copied.size, copied.sha256) != (stored.size, stored.sha256):
        raise BackupError(f"{source} has changed since it was written: {advice}")
    if path.suffix == ".db":
        try:
            copying.check_database(target, quick=False)
            _check_schema(target, stored.migrations)
        except DamagedError as error:
            raise BackupError(f"{source}: {error}: {advice}") from error


def _check_schema(path: Path, migrations: Sequence[str]) -> None:
    """Check that a restored database has the migrations of the manifest and no triggers.

    Views are allowed in trace databases only. Raises DamagedError, sqlite3.Error."""
    refused = ("trigger",) if path.name == contents.TRACES else ("trigger", "view")
    with closing(database.open_copy(path)) as db:
        kinds = {row[0] for row in db.execute("select type from sqlite_schema")}
        applied = list_applied(db)
    if not applied or list(applied) != list(migrations):
        raise DamagedError("its migrations are not those that the manifest names")
    for kind in refused:
        if kind in kinds:
            raise DamagedError(f"it has a {kind}, which no database of Taximeter has")


def _put_in_place(data_dir: Path, draft: Path) -> None:
    paths = sorted(draft.iterdir(), key=lambda path: path.name == contents.CONTROL)
    for path in paths:
        path.rename(data_dir / path.name)
    copying.settle_folder(data_dir)
    draft.rmdir()


def _describe(manifest: Manifest) -> Restored:
    names = [PurePosixPath(name) for name in manifest.files]
    return Restored(
        as_of=manifest.started_at,
        organizations=sum(name.name == contents.TRACES for name in names),
        databases=sum(name.suffix == ".db" for name in names),
        waiting=sum(name.parts[0] == "spool" for name in names),
        bytes=sum(stored.size for stored in manifest.files.values()),
    )
