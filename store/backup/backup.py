"""Making a backup of a data directory, also while a service runs on it.

What is new is written beside the earlier backup, in a folder of this run. Databases that were not written
since the earlier run are not copied again: the new manifest names the earlier copy. What no manifest names
any more is removed last.
"""

import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path, PurePosixPath

from runtime import clock
from runtime.locks import LockHeldError, ProcessLock
from store import database
from store.backup import contents, copying
from store.backup.copying import DamagedError
from store.backup.fingerprint import take_fingerprint
from store.backup.manifest import NAME, BackupError, Manifest, StoredFile, read_manifest
from store.control.erasures import list_ended_since
from store.control.people import find_first_organization
from store.migration_status import list_applied
from store.spool.format import DONE, OPEN

LOCK = "backup.lock"
_EMPTY = frozenset({LOCK, f"{NAME}.new", "lost+found"})


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of a run: numbers of databases, and of calls that wait in the spool.

    ``problems`` has the reason for each folder of an organisation that could not be copied; the backup
    keeps its earlier copy of that folder, if it has one. ``erased`` has the organisations of which
    calls were erased during the run: the backup may still contain those calls. ``unknown`` has the
    files of the data directory that no rule is about."""

    copied: int = 0
    unchanged: int = 0
    waiting: int = 0
    bytes_copied: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    erased: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Return whether everything was copied and no calls were erased during the run."""
        return not self.problems and not self.erased


def make_backup(
    data_dir: Path, folder: Path, *, time_ns: Callable[[], int] = time.time_ns
) -> Report:
    """Make a backup in a folder that does not exist, is empty, or has an earlier backup.

    Raises BackupError, sqlite3.Error or OSError; the earlier backup is unchanged then."""
    _check_places(data_dir, folder)
    copying.make_folder(folder)
    try:
        lock = ProcessLock(folder / LOCK)
    except LockHeldError as error:
        raise BackupError(
            f"process {error.pid or 'unknown'} makes a backup in {folder}: wait until it has ended"
        ) from error
    try:
        earlier = _begin(data_dir, folder)
        run = _Run(data_dir, folder, earlier, time_ns)
        run.copy_all()
        manifest = replace(
            earlier,
            taximeter=version("taximeter"),
            sqlite=sqlite3.sqlite_version,
            started_at=run.started_at,
            finished_at=clock.format_seconds(clock.now()),
            files=run.files,
        )
        copying.settle_folders(run.folder)
        copying.settle_folder(folder)
        manifest.write(folder)
        _remove_unnamed(folder, manifest.files)
        return run.report
    finally:
        lock.release()


def _check_places(data_dir: Path, folder: Path) -> None:
    here, there = data_dir.resolve(), folder.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise BackupError(
            f"{folder} and the data directory {data_dir} are within each other: choose a folder elsewhere"
        )


def _begin(data_dir: Path, folder: Path) -> Manifest:
    """Return the manifest of the earlier backup; in an empty folder write one without files and return it.

    Raises BackupError if the folder has other files or the backup of another service."""
    service_id = _read_service_id(data_dir / contents.CONTROL)
    earlier = read_manifest(folder)
    if earlier is None:
        if others := {path.name for path in folder.iterdir()} - _EMPTY:
            raise BackupError(
                f"{folder} has other files, such as {min(others)}, and is no earlier backup: choose a"
                " folder that is not there yet"
            )
        earlier = Manifest(
            service_id=service_id,
            taximeter=version("taximeter"),
            sqlite=sqlite3.sqlite_version,
            started_at=clock.format_seconds(clock.now()),
        )
        earlier.write(folder)
    elif earlier.service_id != service_id:
        raise BackupError(
            f"{folder} has the backup of another service (organisation {earlier.service_id}, not"
            f" {service_id}): choose another folder"
        )
    _remove_unnamed(folder, earlier.files)  # of a run that was killed
    return earlier


def _read_service_id(control: Path) -> str:
    with closing(database.open_readonly(control, busy_timeout_s=copying.BUSY_TIMEOUT_S)) as db:
        organization = find_first_organization(db)
    if organization is None:
        raise BackupError(f"{control} has not been set up: start `taximeter up` once")
    return organization.id


def _remove_unnamed(folder: Path, files: Mapping[str, StoredFile]) -> None:
    """Remove the files in ``folder`` that the manifest does not name."""
    kept = {folder / stored.folder / name for name, stored in files.items()}
    runs = [
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and path.name != "lost+found"
    ]
    for run in runs:
        if not any(path.is_relative_to(run) for path in kept):
            shutil.rmtree(run)
            continue
        for parent, _, names in run.walk(top_down=False):
            for name in names:
                if parent / name not in kept:
                    (parent / name).unlink()
            if not any(parent.iterdir()):
                parent.rmdir()


class _Run:
    """One run of a backup. It copies in the order in which calls arise: spool, organisations,
    ``control.db``."""

    def __init__(
        self, data_dir: Path, folder: Path, earlier: Manifest, time_ns: Callable[[], int]
    ) -> None:
        self.folder = folder / clock.new_id()
        now = clock.now()
        self.started_at = clock.format_seconds(now)
        self._began_at = clock.format_ms(now)
        self.files: dict[str, StoredFile] = {}
        self.report = Report()
        self._data_dir = data_dir
        self._root = folder
        self._earlier = earlier.files
        self._time_ns = time_ns

    def copy_all(self) -> None:
        """Copy the spool, all organisations and ``control.db``. Raises OSError, and sqlite3.Error for
        ``control.db``."""
        copying.make_folder(self.folder)
        for path in contents.list_spool(self._data_dir):
            self._copy_spooled(path)
        files = contents.list_organizations(self._data_dir)
        for organization, of_it in groupby(files, key=lambda path: path.parent):
            self._copy_organization(str(organization), list(of_it))
        try:
            self._copy_database(PurePosixPath(contents.CONTROL))
        except DamagedError as error:
            raise BackupError(
                f"{self._data_dir / contents.CONTROL} is damaged, and nothing was changed in the"
                f" earlier backup: {error}"
            ) from error
        control = self.folder / contents.CONTROL
        if control.exists():  # else nothing was written in it since the earlier run
            with closing(database.open_copy(control)) as copy:
                self.report.erased = list_ended_since(copy, self._began_at)
        self.report.unknown = list(map(str, contents.list_unknown(self._data_dir)))

    def _copy_spooled(self, path: PurePosixPath) -> None:
        """Copy a spool file. A file that is gone was recorded meanwhile, and the traces are copied later."""
        names = [path]
        if path.suffix == OPEN:  # its call may have ended since
            names.append(path.with_suffix(DONE))
        if any(str(name) in self.files for name in names):
            return
        for name in names:
            try:
                self._copy_file(name)
            except FileNotFoundError:
                continue
            except DamagedError as error:
                self.report.problems[str(name)] = str(error)
                return
            self.report.waiting += 1
            return

    def _copy_organization(self, folder: str, paths: Sequence[PurePosixPath]) -> None:
        """Copy the files of an organisation. If one of them fails, the backup keeps all of them from the
        earlier run, since they refer to each other."""
        try:
            for path in paths:
                if path.suffix == ".db":
                    self._copy_database(path)
                else:
                    self._copy_file(path)
        except (sqlite3.Error, DamagedError) as error:
            self.report.problems[folder] = str(error)
            ours = f"{folder}/"
            self.files = {
                name: stored for name, stored in self.files.items() if not name.startswith(ours)
            } | {name: stored for name, stored in self._earlier.items() if name.startswith(ours)}

    def _copy_database(self, path: PurePosixPath) -> None:
        """Copy a database that was written since the earlier backup; otherwise keep the earlier copy.

        A copy is checked before it replaces an earlier one, which may be the last undamaged one. Raises
        sqlite3.Error, DamagedError, OSError."""
        name, source, target = str(path), self._data_dir / path, self.folder / path
        fingerprint = take_fingerprint(source, self._time_ns())
        earlier = self._earlier.get(name)
        if earlier is not None and self._is_same(name, earlier, fingerprint):
            self.files[name] = earlier
            self.report.unchanged += 1
            return
        copying.copy_database(source, target)
        copying.check_database(target, quick=True)
        with closing(database.open_copy(target)) as copy:
            migrations = list_applied(copy)
        self.report.copied += 1
        self._note(path, copying.settle(target), migrations=migrations, fingerprint=fingerprint)

    def _is_same(self, name: str, earlier: StoredFile, fingerprint: str | None) -> bool:
        if fingerprint is None or earlier.fingerprint != fingerprint:
            return False
        copy = self._root / earlier.folder / name
        return copy.is_file() and copy.stat().st_size == earlier.size

    def _copy_file(self, path: PurePosixPath) -> None:
        self._note(path, copying.copy_file(self._data_dir / path, self.folder / path))

    def _note(
        self,
        path: PurePosixPath,
        copied: copying.Copied,
        migrations: tuple[str, ...] = (),
        fingerprint: str | None = None,
    ) -> None:
        self.report.bytes_copied += copied.size
        self.files[str(path)] = StoredFile(
            folder=self.folder.name,
            as_of=self.started_at,
            size=copied.size,
            sha256=copied.sha256,
            migrations=migrations,
            fingerprint=fingerprint,
        )
