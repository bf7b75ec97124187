"""Commands on databases of an earlier version, which this one does not take over."""

import sqlite3
from contextlib import closing

import pytest

from store.before_release import COMMIT
from store.traces.paths import trace_path
from tests.store.upgrades.dumps import find_dumps, load


def make_earlier(kind, path):
    (dump,) = (each for each in find_dumps(kind) if each.stem.endswith(COMMIT))
    path.unlink(missing_ok=True)
    load(dump, path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("delete from _sqlite_migrations where name like 'm007%'")


OF_CONTROL = [
    ("up", "--listen", "127.0.0.1:0"),
    ("endpoints", "list"),
    ("usage",),
    ("export",),
    ("tail", "--no-follow"),
    ("users", "list"),
    ("keys", "create", "x"),
    ("search", "hello"),
    ("retention", "show"),
    ("doctor",),
]
OF_TRACES = [*OF_CONTROL, ("verify",), ("reprice",), ("prune", "--older-than", "1d")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        *(("control", arguments) for arguments in OF_CONTROL),
        *(("traces", arguments) for arguments in OF_TRACES),
    ],
)
def test_every_command_says_what_to_do_and_changes_nothing(
    run, data_dir, kind, arguments, monkeypatch
):
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", "http://127.0.0.1:1")  # which doctor tries
    path = data_dir / "control.db" if kind == "control" else trace_path(data_dir, "org")
    make_earlier(kind, path)
    content = path.read_bytes()
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert f"{path} is of an earlier version" in result.output
    assert f"commit {COMMIT}" in result.output
    assert "Traceback" not in result.output
    assert path.read_bytes() == content
