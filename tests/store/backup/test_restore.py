"""Restoring, and what is refused."""

import hashlib
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.locks import ProcessLock
from store.backup.manifest import FORMAT, NAME, BackupError, Manifest
from store.backup.restore import restore_backup
from store.before_release import COMMIT
from store.control.database import ControlDatabase
from store.traces.database import PAGE_BYTES
from tests.store.backup.copies import read_contents
from tests.store.upgrades.dumps import find_dumps, load


def change(copy, **changes):
    replace(copy.manifest, **changes).write(copy.folder)


def test_a_directory_with_anything_in_it_is_refused(made, target):
    (target / "notes.txt").write_text("mine")
    with pytest.raises(BackupError, match=r"not empty \(it has notes\.txt\)"):
        restore_backup(made.folder, target)
    assert (target / "notes.txt").read_text() == "mine"


def test_a_running_service_is_not_restored_over(made, target, monkeypatch):
    lock = ProcessLock(target / "up.lock")
    monkeypatch.chdir(target.parent)
    with pytest.raises(BackupError, match=f"uses {re.escape(str(target))}: stop it"):
        restore_backup(made.folder, Path(target.name))
    lock.release()
    restore_backup(made.folder, target)


@pytest.mark.parametrize(
    "name", ["control.db", "traces/{a}/traces.db", "traces/{a}/reconciliation.json"]
)
def test_one_other_byte_is_noticed(made, place, target, name):
    path = made.path(name.format_map(place.organizations))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(BackupError, match="has changed since it was written"):
        restore_backup(made.folder, target)
    assert not (target / "control.db").exists()


def test_a_file_that_is_missing_is_named(made, target):
    made.path("control.db").unlink()
    with pytest.raises(BackupError, match=r"control\.db is missing"):
        restore_backup(made.folder, target)


def test_a_backup_that_was_damaged_when_it_was_made_is_refused(made, place, target):
    """Its checksum is that of the damaged file."""
    name = f"traces/{place.organizations['a']}/traces.db"
    path = made.path(name)
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES * 3)
        file.write(b"\xa5" * PAGE_BYTES)
    from_now = made.manifest.files[name]
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    change(made, files={**made.manifest.files, name: replace(from_now, sha256=sha256)})
    with pytest.raises(BackupError, match="the backup is damaged"):
        restore_backup(made.folder, target)


@pytest.mark.parametrize("name", ["control.db", "traces/{a}/traces.db", "traces/{a}/secrets.db"])
def test_a_backup_of_a_newer_version_is_refused_before_anything_is_copied(
    made, place, target, name
):
    name = name.format_map(place.organizations)
    newer = replace(made.manifest.files[name], migrations=("m001", "m999_of_the_future"))
    change(made, taximeter="99.0", files={**made.manifest.files, name: newer})
    with pytest.raises(BackupError, match=r"newer Taximeter \(99\.0\): install"):
        restore_backup(made.folder, target)
    assert list(target.iterdir()) == []


def test_a_backup_of_the_last_commit_before_a_release_is_restored_and_an_earlier_one_refused(
    copy, target
):
    path = copy.place.data_dir / "control.db"
    (dump,) = (each for each in find_dumps("control") if each.stem.endswith(COMMIT))
    path.unlink()
    load(dump, path)
    copy.make()
    with ControlDatabase(copy.restore() / "control.db") as control:
        assert control.set_up() is False
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("delete from _sqlite_migrations where id = 8")
    copy.make()
    with pytest.raises(
        BackupError, match=f"earlier Taximeter: restore it with that of .* {COMMIT}"
    ):
        restore_backup(copy.folder, target)
    assert list(target.iterdir()) == []


def test_a_newer_format_is_refused_with_its_version(made, target):
    document = {"format": FORMAT + 1, "taximeter": "99.0", "anything": []}
    (made.folder / NAME).write_text(json.dumps(document))
    with pytest.raises(BackupError, match=r"Taximeter 99\.0, in a newer format"):
        restore_backup(made.folder, target)


def test_a_data_directory_within_the_backup_is_refused(made):
    inside = made.folder / "data"
    inside.mkdir()
    with pytest.raises(BackupError, match="within the backup"):
        restore_backup(made.folder, inside)


def test_a_restored_service_goes_on_with_the_same_backup(place, made):
    before = read_contents(place.data_dir)
    place.data_dir = made.restore()
    made.make()
    assert read_contents(made.restore()) == before


def test_the_manifest_says_which_versions_made_it(made, place):
    manifest = made.manifest
    assert isinstance(manifest, Manifest)
    assert manifest.taximeter
    assert manifest.sqlite
    assert manifest.files["control.db"].migrations[0] == "m001_who_may_do_what"
