"""``taximeter backup`` and ``taximeter restore`` as the operator sees them."""

import json
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner

from manage.cli.main import cli
from tests.store.traffic import make_entry


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "backup"


def restore(folder, target, *more):
    arguments = ["restore", str(folder), "--data-dir", str(target), *more]
    return CliRunner().invoke(cli, arguments)


def test_a_backup_is_made_brought_up_to_date_and_restored(run, traces, folder, tmp_path):
    traces.insert([make_entry(request_body=b"{}")])
    made = run("backup", str(folder))
    assert made.exit_code == 0, made.output
    assert "2 databases copied" in made.stdout
    again = json.loads(run("backup", str(folder), "--json").stdout)
    assert again["ok"] is True
    assert again["copied"] + again["unchanged"] == 2
    restored = restore(folder, tmp_path / "elsewhere")
    assert restored.exit_code == 0, restored.output
    assert "`taximeter up` starts the service" in restored.stdout
    path = next(tmp_path.glob("elsewhere/traces/*/traces.db"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select request_body from usage_log").fetchall() == [("{}",)]


def test_a_restore_as_json_is_one_document(run, folder, tmp_path):
    made = run("backup", str(folder))
    assert made.exit_code == 0
    assert "1 database copied" in made.stdout
    document = json.loads(restore(folder, tmp_path / "elsewhere", "--json").stdout)
    assert document["ok"] is True
    assert (document["organizations"], document["databases"], document["waiting"]) == (0, 1, 0)


def test_what_cannot_be_done_is_one_line_and_exit_status_1(run, data_dir, folder, tmp_path):
    folder.mkdir()
    (folder / "photo.jpg").touch()
    refused = run("backup", str(folder))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "photo.jpg" in refused.stderr
    refused = restore(tmp_path / "nowhere", tmp_path / "elsewhere")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "has no backup" in refused.stderr
    refused = restore(folder, data_dir)
    assert refused.exit_code == 1
    arguments = ["backup", str(folder), "--data-dir", str(tmp_path / "nowhere")]
    refused = CliRunner().invoke(cli, arguments)
    assert "there is no Taximeter data" in refused.stderr


def test_a_database_that_cannot_be_copied_is_named_and_is_exit_status_1(
    run, data_dir, folder, traces
):
    organization = next(data_dir.glob("traces/*")).name
    other = data_dir / "traces" / "other" / "traces.db"
    other.parent.mkdir()
    other.write_bytes(b"no database" * 1000)
    (data_dir / "notes\x1b.txt").touch()
    made = run("backup", str(folder))
    assert made.exit_code == 1
    assert "traces/other could not be copied" in made.stderr
    assert "notes?.txt is no file of Taximeter" in made.stderr
    document = json.loads(run("backup", str(folder), "--json").stdout)
    assert document["ok"] is False
    assert list(document["problems"]) == ["traces/other"]
    assert next(folder.rglob(f"traces/{organization}/traces.db")).exists()
