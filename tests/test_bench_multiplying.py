"""Copies of filled databases, which ``bench.pages`` measures with more calls than can be recorded."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import batched

import pytest

from bench import filling
from bench.filling import BATCH, fill_whole, make_entries, make_whole
from bench.load import BenchError
from bench.multiplying import ROWS, SHARED, SUMS, multiply
from store.traces.database import TraceDatabase

CALLS, FACTOR = 160, 3
SESSION_CALLS = 120  # so that there are two sessions
WHEN_LOOKED_AT = "computed_at"  # the time at which a session was looked at


@pytest.fixture(scope="module", autouse=True)
def _sessions_are_short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "SESSION_CALLS", SESSION_CALLS)
        patch.setattr(filling, "NEWEST_WITH_BODIES", 40)
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "calls.db"
    fill_whole(path, CALLS)
    return path


def copy_entry(entry, number):
    """Return a copy of a call, with the names that multiplying gives it."""

    def rename(name, form):
        return name and form % (int(name.rpartition(form[: form.index("%")])[2]) * FACTOR + number)

    return replace(
        entry,
        entry_id=rename(entry.entry_id, "bench-%09d"),
        upstream_request_id=rename(entry.upstream_request_id, "req_%09d"),
        session_id=rename(entry.session_id, "session-%d"),
        prompt_id=rename(entry.prompt_id, "prompt-%d"),
        agent_id=rename(entry.agent_id, "agent-%d"),
    )


def record_copies(path, filled):
    """Record the calls of a filled database as many times, at their times."""
    with closing(sqlite3.connect(filled)) as db:
        times = [at for (at,) in db.execute("select created_at from usage order by id")]
    entries = (
        copy_entry(replace(entry, created_at=at), number)
        for entry, at in zip(make_entries(CALLS), times, strict=True)
        for number in range(FACTOR)
    )
    with TraceDatabase(path) as traces:
        for batch in batched(entries, BATCH):
            traces.insert(batch)


def read_table(path, table):
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute(f"select * from {table}").fetchall()  # noqa: S608 - a table's name
    found = [{name: row[name] for name in set(row.keys()) - {WHEN_LOOKED_AT}} for row in rows]
    keys = [name for name, value in sorted(found[0].items()) if not isinstance(value, float)]
    return sorted(found, key=lambda row: [str(row[name]) for name in keys])


@pytest.mark.slow
def test_a_multiplied_database_is_what_recording_its_calls_makes(filled, tmp_path):
    multiplied, recorded = tmp_path / "multiplied.db", tmp_path / "recorded.db"
    multiply(filled, multiplied, FACTOR)
    make_whole(recorded, lambda path: record_copies(path, filled))
    for table in (*ROWS, *SUMS, *SHARED):
        for ours, theirs in zip(
            read_table(multiplied, table), read_table(recorded, table), strict=True
        ):
            assert ours == pytest.approx(theirs), table


@pytest.mark.slow
def test_a_multiplied_database_has_the_indexes_of_a_recorded_one(filled, tmp_path):
    multiply(filled, tmp_path / "multiplied.db", 2)
    schemas = []
    for path in (filled, tmp_path / "multiplied.db"):
        with closing(sqlite3.connect(path)) as db:
            schemas.append(
                db.execute("select type, name, sql from sqlite_schema order by 1, 2").fetchall()
            )
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)
            assert db.execute("pragma journal_mode").fetchone() == ("wal",)
    assert schemas[0] == schemas[1]


def test_a_table_that_cannot_be_multiplied_is_named(filled, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("insert into unnamed_calls values (1, 1)")
    with pytest.raises(BenchError, match="multiply unnamed_calls"):
        multiply(copy, tmp_path / "multiplied.db", 2)
