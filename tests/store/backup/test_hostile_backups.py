"""Attacks by whoever could write to the folder of a backup, on the one who restores or renews it."""

import hashlib
import json
import os
import socket
import sqlite3
from contextlib import chdir, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from store.backup.manifest import FORMAT, MAX_BYTES, NAME, BackupError, Manifest, StoredFile
from store.backup.restore import restore_backup


@dataclass(frozen=True, slots=True)
class Stub:
    """A backup as far as its manifest: the file that it names is not a database."""

    folder: Path


@pytest.fixture
def stub(tmp_path):
    folder = tmp_path / "backup"
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "control.db").write_bytes(b"x")
    stored = StoredFile(
        folder="run",
        as_of=AT,
        size=1,
        sha256=hashlib.sha256(b"x").hexdigest(),
        migrations=("m001",),
    )
    manifest = Manifest(
        service_id="o",
        taximeter="1",
        sqlite="3",
        started_at=AT,
        finished_at=AT,
        files={"control.db": stored},
    )
    manifest.write(folder)
    return Stub(folder)


def read_document(made):
    return json.loads((made.folder / NAME).read_bytes())


def write_document(made, document):
    text = document if isinstance(document, str) else json.dumps(document)
    (made.folder / NAME).write_text(text)


def refuse(made, target, match="backup"):
    """Check that a restore is refused in one line, and leaves nothing that a service would start on."""
    with pytest.raises(BackupError, match=match) as raised:
        restore_backup(made.folder, target)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1000
    assert not (target / "control.db").exists()
    return str(raised.value)


AT = "2026-11-22T03:04:05Z"
PLACES = [
    *("../evil.db", "/etc/evil.db", "traces/../control.db", "traces/../../x/traces.db", "..", ".", "", "/"),
    *("traces/./traces.db", "traces//traces.db", "./control.db", "control.db/", "control.db/.", "//control.db"),
    *("traces/.../traces.db", "traces/.hidden/traces.db", "traces/-rf/traces.db", "traces/~/traces.db"),
    *("traces/a b/traces.db", "traces/a\nb/traces.db", "traces/a\x00b/traces.db", "traces/\x1b[2J/traces.db"),
    *("traces/\u202eab/traces.db", "traces/é/traces.db", "traces/a\\b/traces.db", "traces/$(x)/traces.db"),
    *("traces/" + "a" * 300 + "/traces.db", "spool/run/" + "x" * 5000 + ".done", "spool/a/b/c.done"),
    *("control.db\x00", "control.db-wal", "control.db-shm", "up.lock", "service.json", "node.id", "run.log"),
    *("mitmproxy/config.yaml", "incoming/1/traces.db", "taximeter-restore/control.db", "anything", "traces"),
    *("traces/a/traces.db-wal", "traces/a/evil.db", "spool/run/lock", "spool/run/reserve", "spool/run/free/1"),
    *("C:\\control.db", "control.db:stream", "CON", "control.db ", "Control.DB", "TRACES/a/traces.db"),
]  # fmt: skip
FOLDERS = [
    "..",
    ".",
    "",
    "/",
    "/etc",
    "a/b",
    "a\\b",
    "~",
    "-x",
    ".hidden",
    "a\nb",
    "a\x00b",
    "é",
    "x" * 300,
]


@pytest.mark.parametrize("name", PLACES, ids=ascii)
def test_a_manifest_names_no_other_place(stub, target, name):
    document = read_document(stub)
    document["files"][name] = document["files"]["control.db"]
    write_document(stub, document)
    refuse(stub, target, "not part of a backup")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=ascii)
def test_a_manifest_names_no_other_folder(stub, target, folder):
    document = read_document(stub)
    document["files"]["control.db"]["folder"] = folder
    write_document(stub, document)
    refuse(stub, target, "not part of a backup")
    assert list(target.iterdir()) == []


def test_names_that_some_file_systems_take_for_one_are_refused(stub, target):
    document = read_document(stub)
    for name in ("traces/a/traces.db", "traces/A/traces.db"):
        document["files"][name] = document["files"]["control.db"]
    write_document(stub, document)
    refuse(stub, target, "names a file twice: traces/A")


def change(**changes):
    return lambda document: document | changes


def change_file(**changes):
    def apply(document):
        document["files"]["control.db"] |= changes
        return document

    return apply


DOCUMENTS = {
    "no JSON": lambda _: "{",
    "empty": lambda _: "",
    "binary": lambda _: "\x00" * 100,
    "nested deeply": lambda _: "[" * 100_000,
    "not a number": lambda _: '{"format": NaN}',
    "a list": lambda _: [],
    "a text": lambda _: "manifest",
    "null": lambda _: None,
    "no version": lambda document: {n: v for n, v in document.items() if n != "format"},
    "version 0": change(format=0),
    "version -1": change(format=-1),
    "a version as text": change(format="1"),
    "a version as a fraction": change(format=1.0),
    "a version as a truth": change(format=True),
    "a huge version": change(format=10**30),
    "a newer version with an escape": change(format=FORMAT + 1, taximeter="\x1b[2J\nRestored."),
    "a newer version of a program without end": change(format=FORMAT + 1, taximeter="9" * 10**6),
    "a program that is a list": change(taximeter=[]),
    "a program with an escape": change(taximeter="\x1b[2J"),
    "a service with a line end": change(service_id="x\nRestored."),
    "a time that is none": change(started_at="\x1b[2Jyesterday"),
    "a time beyond time": change(started_at="0001-01-01T00:00:00+14:00"),
    "never finished": change(finished_at=None),
    "finished at no time": change(finished_at=""),
    "no files": change(files={}),
    "files that are a list": change(files=[]),
    "files that are null": change(files=None),
    "a file that is null": lambda document: document | {"files": {"control.db": None}},
    "a size as text": change_file(size="many"),
    "a size below nothing": change_file(size=-1),
    "a size without end": change_file(size=10**30),
    "a size that is infinite": change_file(size=1e400),
    "another size": change_file(size=1),
    "another digest": change_file(sha256="0" * 64),
    "a digest of nothing": change_file(sha256=""),
    "a digest that is null": change_file(sha256=None),
    "migrations of the future": change_file(migrations=["m001", "m999_of_the_future"]),
    "migrations that are a number": change_file(migrations=1),
    "a folder that is not there": change_file(folder="nowhere"),
    "a folder that is a file": change_file(folder=NAME),
    "a folder that is null": change_file(folder=None),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_a_manifest_says_is_not_believed(stub, target, name):
    write_document(stub, DOCUMENTS[name](read_document(stub)))
    refuse(stub, target)


def test_what_a_later_version_adds_to_the_same_format_is_left_alone(made, target):
    document = read_document(made)
    document["files"]["control.db"]["colour"] = "blue"
    write_document(made, document | {"mood": {"good": True}})
    restore_backup(made.folder, target)
    assert (target / "control.db").exists()


KINDS = ["link", "link to nowhere", "link to itself", "folder", "pipe", "socket", "device"]


def put(path, kind, other):
    """Put something else than a file in the place of one."""
    path.unlink(missing_ok=True)
    match kind:
        case "link":
            path.symlink_to(other)
        case "link to nowhere":
            path.symlink_to("/nowhere")
        case "link to itself":
            path.symlink_to(path)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "socket":
            # Its whole path may be too long.
            with closing(socket.socket(socket.AF_UNIX)) as listener, chdir(path.parent):
                listener.bind(path.name)
        case "device":
            try:
                os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
            except PermissionError:
                pytest.skip("only root makes devices; run it as root")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["control.db", NAME])
def test_what_is_no_file_is_not_read(made, target, tmp_path, kind, name):
    path = made.folder / NAME if name == NAME else made.path(name)
    content = path.read_bytes()
    other = tmp_path / "other"
    other.write_bytes(content)
    put(path, kind, other)
    refuse(made, target, "not a file")
    assert other.read_bytes() == content


@pytest.mark.parametrize("part", ["run", "traces", "organisation"])
def test_a_folder_that_leads_elsewhere_is_not_read(made, part, target, tmp_path):
    name = next(name for name in made.manifest.files if name.endswith("/traces.db"))
    path = made.path(name)
    folder = {"organisation": path.parent, "traces": path.parents[1], "run": path.parents[2]}[part]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    refuse(made, target, "outside of the backup, by a link")


def test_a_backup_that_is_itself_behind_a_link_is_restored(made, target, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(made.folder)
    restore_backup(link, target)


def test_a_file_that_has_grown_is_not_copied_whole(made, target):
    with made.path("control.db").open("r+b") as file:
        file.truncate(10**13)
    refuse(made, target, "has changed since it was written")
    copied = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    assert copied < 100_000_000


def test_a_manifest_without_end_is_not_read(made, target):
    os.truncate(made.folder / NAME, MAX_BYTES + 1)
    refuse(made, target, "larger than the manifest")


SCHEMAS = {
    "a trigger that makes an owner": "create trigger x after insert on audit_log begin update memberships set role = 'owner'; end",
    "a trigger on a deletion": "create trigger x before delete on sessions begin select raise(ignore); end",
    "a view": "create view x as select zeroblob(1000000000)",
    "a view with a trigger": "create view x as select 1; create trigger y instead of insert on x begin select 1; end",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_database_that_runs_statements_of_its_own_is_refused(made, target, name):
    path = made.path("control.db")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMAS[name])
    document = read_document(made)
    content = path.read_bytes()
    changed = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    document["files"]["control.db"] |= changed
    write_document(made, document)
    refuse(made, target, "which no database of Taximeter has")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 4080, b"PK\3\4" * 999]
)
def test_what_is_no_database_is_refused(made, target, content):
    path = made.path("control.db")
    path.write_bytes(content)
    document = read_document(made)
    changed = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    document["files"]["control.db"] |= changed
    write_document(made, document)
    refuse(made, target, "damaged|Taximeter has")


@pytest.mark.parametrize("name", ["taximeter-restore", "spool", "traces"])
def test_what_waits_in_the_data_directory_is_not_followed(made, target, tmp_path, name):
    """A link in the place of what an interrupted restore leaves, which is removed."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    if name != "taximeter-restore":
        (target / "taximeter-restore").mkdir()
    (target / name).symlink_to(precious)
    with pytest.raises((BackupError, OSError)):
        restore_backup(made.folder, target)
    assert (precious / "file").read_text() == "mine"
    assert not (target / "control.db").exists()


@pytest.mark.parametrize("is_named", [True, False])
def test_a_link_in_the_backup_is_not_cleared_by_the_next_one(made, place, tmp_path, is_named):
    """Making a backup again removes what the manifest does not name."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (made.folder / "evil").symlink_to(precious)
    if is_named:
        document = read_document(made)
        document["files"]["traces/a/traces.db"] = document["files"]["control.db"] | {
            "folder": "evil"
        }
        write_document(made, document)
    made.make()
    assert (precious / "file").read_text() == "mine"
    made.restore()
