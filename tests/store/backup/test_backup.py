"""The contents of a backup, what is copied again, and the fate of an earlier one."""

import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import PurePosixPath

import pytest

from runtime import clock
from runtime.locks import ProcessLock
from store.backup import backup, contents, copying
from store.backup.manifest import BackupError
from store.backup.restore import restore_backup
from store.control import erasures
from store.control.database import ControlDatabase
from store.erasure_work import carry_out
from store.spool.format import DONE
from store.traces.database import TraceDatabase
from store.traces.maintenance.criteria import Criteria
from tests.store.backup.copies import read_contents
from tests.store.traffic import make_entry


def test_a_restored_backup_has_every_row_and_every_body(place, copy):
    report = copy.make()
    assert (report.copied, report.unchanged, report.problems, report.unknown) == (4, 0, {}, [])
    restored = copy.restore()
    assert read_contents(restored) == read_contents(place.data_dir)
    name = place.traces("a").relative_to(place.data_dir)
    with TraceDatabase(place.traces("a")) as ours, TraceDatabase(restored / name) as theirs:
        count = ours.count_entries()
        assert [theirs.read_bodies(n) for n in range(1, count + 1)] == [
            ours.read_bodies(n) for n in range(1, count + 1)
        ]
        assert list(theirs.verify()) == []
        assert theirs.connection.execute("pragma auto_vacuum").fetchone() == (2,)
        assert theirs.connection.execute("pragma journal_mode").fetchone() == ("wal",)


def test_a_backup_is_for_its_owner_only(place, copy):
    umask = os.umask(0)
    try:
        copy.make()
        restored = copy.restore()
    finally:
        os.umask(umask)
    for folder in (copy.folder, restored):
        modes = {
            (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
            for path in (folder, *folder.rglob("*"))
        }
        assert modes == {(True, 0o700), (False, 0o600)}


def test_databases_that_were_not_written_since_are_not_copied_again(place, copy):
    copy.make()
    before = copy.manifest.files
    place.insert("b", make_entry(request_body=b'{"new": true}'))
    report = copy.make()
    assert (report.copied, report.unchanged) == (1, 3)
    changed = str(place.traces("b").relative_to(place.data_dir))
    after = copy.manifest.files
    assert [name for name in after if name.endswith(".db") and after[name] != before[name]] == [
        changed
    ]
    assert read_contents(copy.restore()) == read_contents(place.data_dir)
    there = {str(path.relative_to(copy.folder)) for path in copy.folder.rglob("*.db")}
    assert there == {
        f"{each.folder}/{name}" for name, each in after.items() if name.endswith(".db")
    }


def test_what_was_written_in_the_instant_before_its_copy_is_copied_again(place, copy):
    """Another write in the same tick of the file system's clock would leave the same times."""
    # That of the file which was written first: there may be seconds between two of them.
    copy.time_ns = lambda: min(
        max(path.stat().st_mtime_ns, path.stat().st_ctime_ns)
        for path in place.data_dir.rglob("*.db")
    )
    copy.make()
    assert copy.make().unchanged == 0


def change_nothing_but_a_row(path):
    """Write into the log in place, with the size and the modification time that it had."""
    log = path.with_name("traces.db-wal")
    before = log.stat()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update usage set slug = 'x' where id = 1")
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_another_in_its_place(path):
    draft = path.with_name("draft")
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(draft)) as other:
        db.execute("pragma wal_checkpoint(truncate)")
        db.backup(other)
        other.execute("update usage set slug = 'y' where id = 1")
        other.commit()
    before = path.stat()
    draft.replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [change_nothing_but_a_row, put_another_in_its_place])
def test_a_change_is_found_whatever_the_modification_times_say(place, copy, change):
    with closing(sqlite3.connect(place.traces("b"))) as open_all_the_time:
        open_all_the_time.execute("update usage set slug = 'w' where id = 1")
        open_all_the_time.commit()
        copy.make()
        assert copy.make().unchanged == 4
        change(place.traces("b"))
        assert copy.make().copied == 1
    name = place.traces("b").relative_to(place.data_dir)
    with closing(sqlite3.connect(copy.restore() / name)) as db:
        assert db.execute("select slug from usage where id = 1").fetchone()[0] in "xy"


def test_reading_changes_nothing(place, copy):
    """A reader makes an empty log, and removes it."""
    copy.make()
    with closing(sqlite3.connect(place.traces("a"))) as reading:
        reading.execute("select * from usage").fetchall()
        assert copy.make().unchanged == 4
    assert copy.make().unchanged == 4


def test_a_copy_is_one_state_and_goes_on_while_others_write(place, tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "STEP_PAGES", 1)
    left = []
    with TraceDatabase(place.traces("a")) as traces:
        traces.connection.execute("pragma busy_timeout = 0")  # nobody may be in its way
        count = traces.count_entries()

        def write(_status, remaining, _total):
            left.append(remaining)
            assert len(left) < 1000, "it begins anew for ever"
            traces.insert([make_entry(request_body=b'{"n": %d}' % len(left))])

        copying.copy_database(place.traces("a"), tmp_path / "copy.db", write)
        assert traces.count_entries() == count + len(left)
    assert len(left) > 20
    assert left == list(range(len(left)))[::-1]
    with TraceDatabase(tmp_path / "copy.db") as copied:
        assert copied.count_entries() == count
        assert list(copied.verify()) == []


def test_every_call_in_a_backup_has_its_endpoint_there(place, copy, monkeypatch):
    copy_database = copying.copy_database

    def sign_up_meanwhile(source, target):
        if source == place.traces("b"):
            with ControlDatabase(place.data_dir / "control.db") as control:
                organization = control.get_local_organization().id
                with control.transaction() as db:
                    from_here = "insert into proxy_endpoints (id, organization_id, name, slug, created_at) values ('pe_new', ?, 'n', 'new', '2026')"
                    db.execute(from_here, (organization,))
            place.insert("b", make_entry(proxy_endpoint_id="pe_new"))
        copy_database(source, target)

    monkeypatch.setattr(copying, "copy_database", sign_up_meanwhile)
    copy.make()
    restored = copy.restore()
    with closing(sqlite3.connect(restored / "control.db")) as control:
        endpoints = {row[0] for row in control.execute("select id from proxy_endpoints")}
    name = place.traces("b").relative_to(place.data_dir)
    with closing(sqlite3.connect(restored / name)) as traces:
        called = {row[0] for row in traces.execute("select proxy_endpoint_id from usage")}
    assert "pe_new" in called & endpoints


def test_an_erasure_that_ends_while_a_backup_is_made_is_reported(place, copy, monkeypatch):
    copy_database = copying.copy_database

    def erase_meanwhile(source, target):
        copy_database(source, target)
        if source == place.traces("b"):
            with (
                ControlDatabase(place.data_dir / "control.db") as control,
                TraceDatabase(source) as traces,
            ):
                with control.transaction() as db:
                    organization = place.organizations["b"]
                    criteria = Criteria(since="2026-01-01T00:00:00.000Z")
                    erasures.order(db, organization, None, criteria, clock.now())
                    (order,) = erasures.list_open(db)
                for _ in carry_out(order, control, traces, place.data_dir / "spool"):
                    pass
                assert traces.count_entries() == 0

    assert copy.make().erased == []
    place.insert("b", make_entry())
    monkeypatch.setattr(copying, "copy_database", erase_meanwhile)
    report = copy.make()
    assert report.erased == [place.organizations["b"]]
    assert not report.is_complete
    monkeypatch.undo()
    again = copy.make()
    assert (again.erased, again.is_complete) == ([], True)
    assert read_contents(copy.restore()) == read_contents(place.data_dir)


def damage(path):
    """Overwrite the middle of a database that nobody has open."""
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xa5" * 4096 * 4)


def test_a_damaged_database_does_not_take_the_place_of_a_whole_copy(place, copy):
    copy.make()
    before = {name: each for name, each in copy.manifest.files.items() if name.startswith("traces")}
    damage(place.traces("a"))
    place.insert("b", make_entry())
    report = copy.make()
    folder = str(place.traces("a").parent.relative_to(place.data_dir))
    assert list(report.problems) == [folder]
    assert report.copied == 1
    after = copy.manifest.files
    ours = [name for name in before if name.startswith(folder)]
    assert len(ours) == 3
    assert [after[name] for name in ours] == [before[name] for name in ours]
    copy.restore()


def test_a_damaged_control_database_leaves_the_earlier_backup(place, copy):
    copy.make()
    before = copy.manifest
    place.insert("b", make_entry())
    damage(place.data_dir / "control.db")
    with pytest.raises((BackupError, sqlite3.DatabaseError)):
        copy.make()
    assert copy.manifest == before
    copy.restore()


def test_a_copy_that_was_removed_is_made_again(place, copy):
    copy.make()
    copy.path("control.db").unlink()
    assert copy.make().copied == 1
    copy.restore()


KILLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}


def killed_after(number, work):
    """Return whether a process that does this work is killed at the so-manieth step."""
    pid = os.fork()
    if pid == 0:
        try:
            left = number

            def count_down(event, _arguments):
                nonlocal left
                if event in KILLS:
                    left -= 1
                    if left == 0:
                        os._exit(9)

            sys.addaudithook(count_down)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 9)
    return status == 9


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_step_leaves_the_earlier_backup_or_the_new_one(place, copy):
    copy.make()
    old = read_contents(place.data_dir)
    place.insert("a", make_entry(request_body=b'{"new": 1}'))
    new = read_contents(place.data_dir)
    seen = []
    number = 1
    while killed_after(number, copy.make):
        restored = read_contents(copy.restore())
        assert restored in (old, new)
        seen.append(restored == new)
        number += 5
    assert seen == sorted(seen), "once it is new it stays new"
    assert len(seen) > 8
    assert read_contents(copy.restore()) == new
    runs = {each.folder for each in copy.manifest.files.values()}
    assert {path.name for path in copy.folder.iterdir() if path.is_dir()} == runs


@pytest.mark.slow
def test_a_restore_that_is_killed_at_any_step_can_be_done_again(place, copy, target):
    copy.make()
    ours = read_contents(place.data_dir)

    def restore():
        restore_backup(copy.folder, target)

    number = 1
    while killed_after(number, restore) and not (target / "control.db").exists():
        number += 5
    assert number > 10
    assert read_contents(target) == ours


def test_a_folder_with_other_files_is_left_alone(place, copy):
    copy.folder.mkdir()
    (copy.folder / "photo.jpg").touch()
    with pytest.raises(BackupError, match=r"photo\.jpg"):
        copy.make()
    assert [path.name for path in copy.folder.iterdir() if path.suffix != ".lock"] == ["photo.jpg"]


def test_an_empty_folder_and_one_whose_first_backup_was_killed_are_used(place, copy):
    copy.folder.mkdir()
    assert killed_after(25, copy.make)
    assert copy.manifest.finished_at is None
    with pytest.raises(BackupError, match="never finished"):
        copy.restore()
    copy.make()
    assert read_contents(copy.restore()) == read_contents(place.data_dir)


def test_the_backup_of_another_service_is_not_overwritten(place, copy):
    copy.make()
    before = copy.manifest
    with ControlDatabase(place.data_dir / "control.db") as control, control.transaction() as db:
        db.execute("pragma defer_foreign_keys = on")
        db.execute("update organizations set id = 'other' where name = 'Local'")
        db.execute(
            "update memberships set organization_id = 'other' where organization_id not in (select id from organizations)"
        )
        db.execute(
            "update proxy_endpoints set organization_id = 'other' where organization_id not in (select id from organizations)"
        )
    with pytest.raises(BackupError, match="another service"):
        copy.make()
    assert copy.manifest == before


def test_one_backup_at_a_time(place, copy):
    copy.make()
    lock = ProcessLock(copy.folder / backup.LOCK)
    with pytest.raises(BackupError, match=f"process {os.getpid()}"):
        copy.make()
    lock.release()


@pytest.mark.parametrize("inside", ["data/backup", "data", "."])
def test_a_backup_within_the_data_or_around_it_is_refused(place, copy, tmp_path, inside):
    copy.folder = tmp_path / inside
    with pytest.raises(BackupError, match="within each other"):
        copy.make()


def test_files_that_no_rule_is_about_are_named(place, copy):
    (place.data_dir / "notes.txt").touch()
    assert copy.make().unknown == ["notes.txt"]
    assert contents.find_rule(PurePosixPath("traces/org/traces.db-wal")) is not None


def test_files_with_names_that_a_restore_refuses_are_left_out_and_named(place, copy):
    """Otherwise nobody could restore the backup, nor make the next one there."""
    unreadable = place.data_dir / "spool" / "unreadable"
    unreadable.mkdir(parents=True)
    (unreadable / "copy (1).done").touch()
    assert copy.make().unknown == ["spool/unreadable/copy (1).done"]
    assert copy.make().unknown == ["spool/unreadable/copy (1).done"]
    copy.restore()


def test_a_link_among_the_calls_that_wait_is_a_problem_and_the_rest_is_copied(
    place, copy, tmp_path
):
    (tmp_path / "elsewhere").write_text("x")
    link = place.data_dir / "spool" / "1" / f"x{DONE}"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    report = copy.make()
    assert report.problems == {f"spool/1/{link.name}": f"{link} is not a file"}
    assert (report.copied, report.waiting) == (4, 0)
