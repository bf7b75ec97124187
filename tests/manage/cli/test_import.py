"""Importing what an export has written."""

import io
import json
import sqlite3
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from manage.cli import import_store, importing
from manage.cli.main import cli
from metering.rate_limits import RateLimits
from recorder.imports import Imports
from recorder.open_databases import OpenDatabases
from runtime import clock
from runtime.locks import ProcessLock
from store import call_imports
from store.control.database import ControlDatabase
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.conversations.sessions import START, conversation, request
from tests.recorded import CASES
from tests.recorder.conversations import Recording
from tests.recorder.test_recorded_fields import record
from tests.store.traffic import make_entry, make_item

# Of these a new database has its own, or none: what is found later, and what is learned from responses.
NOT_COMPARED = ("search_", "savings", "session_savings", "_sqlite", "sqlite_", "output_sizes")


class Place:
    """A data directory after a first start."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        with ControlDatabase(data_dir / "control.db") as control:
            control.set_up()
            self.organization_id = control.get_local_organization().id
            (endpoint,) = control.list_endpoints(self.organization_id)
        self.endpoint_id = endpoint.id
        self.path = trace_path(data_dir, self.organization_id)

    def run(self, *arguments, **options):
        return CliRunner().invoke(cli, [*arguments, "--data-dir", str(self.data_dir)], **options)

    def export(self):
        result = self.run("export", "--bodies")
        assert result.exit_code == 0, result.output
        return result.stdout

    def insert(self, *entries):
        with TraceDatabase(self.path) as traces:
            traces.insert(entries)

    def read(self, sql):
        with closing(sqlite3.connect(self.path)) as db:
            return db.execute(sql).fetchall()

    def read_tables(self):
        names = self.read("select name from sqlite_schema where type = 'table'")
        return {
            name: sorted(map(_round, self.read(f'select * from "{name}"')), key=repr)  # noqa: S608
            for (name,) in names
            if not name.startswith(NOT_COMPARED)
        }


def _round(row):
    """Return a row whose sums do not depend on the order of adding."""
    return tuple(round(each, 6) if isinstance(each, float) else each for each in row)


@pytest.fixture
def here(tmp_path):
    return Place(tmp_path / "here")


@pytest.fixture
def there(tmp_path):
    return Place(tmp_path / "there")


def record_all(place):
    """Record calls of every kind, in order of arrival."""
    recording = Recording(place.data_dir, place.organization_id)
    known = {"proxy_endpoint_id": place.endpoint_id}
    for turns, nation in (
        (1, "British"),
        (2, "British"),
        (3, "American"),
    ):  # the last breaks the cache
        recording.send(request(*conversation(turns, opening=f"A {nation} ship.")), **known)
    for turns in (1, 2):  # of a session that has no name
        recording.send(request(*conversation(turns)), session_id=None, **known)
    recording.send({"model": "x", "messages": []}, status_code=529, session_id=None, **known)
    recording.send(request(*conversation(1)), metadata_only=True, **known)
    recording.send(request(*conversation(1)), ended_with="client_disconnected", **known)
    recording.spool(
        b"\xff\x00 no text", slug="gone", proxy_endpoint_id="of a deleted one", run_id="r1"
    )
    recording.record()
    recording.close()
    others = [
        make_entry(
            model=None, cost_cents=None, usage_source="none", status_code=None, cost_items=()
        ),
        make_entry(
            usage_source="estimated",
            outcome="upstream_interrupted",
            billing="subscription",
            overage=False,
            credential_hmac="credential",
            rate_limits=RateLimits(
                unified_5h_utilization=0.25, overage_in_use=True, other='{"a":"b"}'
            ),
            cost_items=(make_item(estimated=True, speed="fast", note="hidden_thinking"),),
        ),
        make_entry(
            request_body=b"", response_body=b"\x00", body_notes="request not kept: none sent"
        ),
        *map(record, CASES),
    ]
    first = START + timedelta(hours=1)
    place.insert(
        *(
            replace(
                each,
                entry_id=f"other-{number:04}",
                proxy_endpoint_id=place.endpoint_id,
                slug="default",
                created_at=clock.format_ms(first + timedelta(seconds=number)),
                output_size=None,
            )
            for number, each in enumerate(others)
        )
    )
    return 9 + len(others)


@pytest.mark.slow
def test_what_was_exported_is_imported_as_it_was_recorded(here, there):
    calls = record_all(here)
    lines = here.export()
    (there.data_dir / "control.db").write_bytes((here.data_dir / "control.db").read_bytes())
    there = Place(there.data_dir)
    result = there.run("import", "-", input=lines)
    assert (result.exit_code, result.stdout) == (0, f"Imported {calls} calls.\n"), result.output
    assert there.export() == lines
    assert there.read_tables() == here.read_tables()
    assert there.run("verify").exit_code == 0
    assert there.read("select count(*) from savings_due") == here.read(
        "select count(*) from sessions"
    )


@pytest.mark.slow
def test_a_second_import_changes_nothing(here, there, tmp_path):
    calls = record_all(here)
    path = tmp_path / "calls.jsonl"
    path.write_text(here.export())
    assert there.run("import", str(path)).exit_code == 0
    before = there.read_tables()
    result = there.run("import", str(path), "--json")
    assert json.loads(result.stdout) == {"new": 0, "already_there": calls, "left_out": {}}
    assert there.read_tables() == before


def test_calls_get_the_endpoint_that_has_their_slug_here(here, there):
    here.insert(
        make_entry(slug="default", proxy_endpoint_id=here.endpoint_id),
        make_entry(slug="elsewhere", proxy_endpoint_id="e7"),
    )
    there.run("import", "-", input=here.export())
    assert there.read("select slug, proxy_endpoint_id from usage order by id") == [
        ("default", there.endpoint_id),
        ("elsewhere", "e7"),
    ]
    assert there.read("select count(*) from usage_hourly where proxy_endpoint_id = 'e7'") == [(1,)]


def test_what_is_before_a_wrong_line_is_imported_and_running_it_again_goes_on(
    here, there, monkeypatch
):
    monkeypatch.setattr(importing, "GROUP_CALLS", 2)
    here.insert(*(make_entry(entry_id=f"e{number}") for number in range(6)))
    lines = here.export().splitlines()
    broken = "\n".join([*lines[:3], "", lines[3][:-9], *lines[4:]])
    result = there.run("import", "-", input=broken)
    assert result.exit_code == 1
    assert "line 5 cannot be imported: it is not JSON" in result.stderr
    assert "3 calls were imported" in result.stderr
    assert there.read("select count(*) from usage") == [(3,)]
    result = there.run("import", "-", input="\n".join(lines))
    assert result.stdout == "Imported 3 calls; 3 were there already.\n"


def test_calls_of_several_organizations_are_not_mixed(here, there):
    here.insert(make_entry(entry_id="ours"))
    with TraceDatabase(trace_path(here.data_dir, "zzz")) as other:
        other.insert([make_entry(entry_id="theirs")])
    lines = here.export()
    result = there.run("import", "-", input=lines)
    assert result.exit_code == 1
    assert "line 2 cannot be imported: it is of another organisation (zzz)" in result.stderr
    result = there.run("import", "-", "--organization", "zzz", input=lines)
    assert result.stdout == "Imported 1 call; 1 was left out (other_organization).\n"
    assert there.read("select entry_id from usage order by 1") == [("ours",), ("theirs",)]


def test_an_export_without_bodies_is_refused(here, there):
    here.insert(make_entry())
    result = there.run("import", "-", input=here.run("export").stdout)
    assert (
        "line 1 cannot be imported: it has no request_body: export with --bodies" in result.stderr
    )
    assert not there.path.exists()


@contextmanager
def handing_over(place):
    """Have a recorder store what is handed over meanwhile. Yields the organisations of what it stored."""
    lock = ProcessLock(place.data_dir / "recorder.lock")
    stored: list[str] = []
    ended = threading.Event()
    databases, ticks = OpenDatabases(place.data_dir, RequestPreparer()), count()

    def record_on():
        imports = Imports(
            place.data_dir, databases, clock_s=lambda: next(ticks), on_stored=stored.append
        )
        while not ended.wait(0.01):
            imports.run_step()
        databases.close_all()

    recorder = threading.Thread(target=record_on)
    recorder.start()
    try:
        yield stored
    finally:
        ended.set()
        recorder.join()
        lock.release()
    assert not call_imports.find_folder(place.data_dir, place.organization_id).exists()


def test_a_running_recorder_stores_what_is_handed_over(here, there, monkeypatch):
    monkeypatch.setattr(importing, "GROUP_CALLS", 3)
    here.insert(*(make_entry() for _ in range(10)))
    with handing_over(there) as stored:
        result = there.run("import", "-", input=here.export())
    assert result.stdout == "Imported 10 calls.\n", result.output
    assert stored == [there.organization_id] * 4
    assert there.read("select count(*) from usage") == [(10,)]


def test_where_the_recorder_ends_the_command_stores_what_it_had_handed_over(
    here, there, monkeypatch
):
    here.insert(make_entry())
    lock = ProcessLock(there.data_dir / "recorder.lock")
    monkeypatch.setattr("manage.cli.import_store.time.sleep", lambda _s: lock.release())
    result = there.run("import", "-", input=here.export())
    assert result.stdout == "Imported 1 call.\n", result.output
    assert call_imports.list_organizations(there.data_dir) == []


def test_a_recorder_that_cannot_store_is_not_waited_for_without_end(here, there, monkeypatch):
    here.insert(make_entry())
    lock = ProcessLock(there.data_dir / "recorder.lock")
    monkeypatch.setattr(import_store, "PATIENCE_S", 0.0)
    result = there.run("import", "-", input=here.export())
    lock.release()
    assert result.exit_code == 1
    assert "taximeter doctor" in result.stderr
    assert call_imports.list_organizations(there.data_dir) == [there.organization_id]


def test_a_node_that_does_not_keep_the_calls_of_the_organization_imports_none(
    here, there, monkeypatch
):
    here.insert(make_entry())
    lines = here.export()
    elsewhere = SimpleNamespace(list_others=lambda: ["node:1 (a)"], is_elsewhere=lambda _: True)
    for module in ("console", "importing"):
        monkeypatch.setattr(f"manage.cli.{module}.find_copies", lambda _: elsewhere)
    result = there.run("import", "-", input=lines)
    assert result.exit_code == 1
    assert "node:1" in result.stderr
    assert "this node does not keep the calls" in result.stderr
    assert not there.path.exists()


def test_the_command_for_a_file_need_not_be_named(here, there, tmp_path, monkeypatch):
    here.insert(make_entry())
    path = tmp_path / "calls"
    path.write_text(here.export())
    monkeypatch.chdir(tmp_path)
    for arguments in (["file", "calls"], ["calls"], ["--json", "calls"], ["./calls"]):
        assert there.run("import", *arguments).exit_code == 0
    result = there.run("import", "nothing")
    assert (result.exit_code, "No such command 'nothing'" in result.stderr) == (2, True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_alone(tmp_path, monkeypatch):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"x" * 200)
    monkeypatch.setattr(importing, "PROGRESS_S", 0.0)
    shown = {}
    for stderr in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stderr)
        with path.open("rb") as file, importing.Progress(importing.find_size(file)) as progress:
            progress.show(50, 1_234)
        shown[stderr.isatty()] = stderr.getvalue()
    assert shown == {True: "\r\x1b[K1,234 calls, 25%\r\x1b[K", False: ""}
