"""New databases have large pages, and older ones get them as the documentation says."""

import re
import sqlite3
from contextlib import closing
from random import Random

import pytest

from store import database
from store.traces import database as trace_database
from store.traces.database import PAGE_BYTES, TraceDatabase
from store.traces.maintenance import removal
from tests import ROOT
from tests.store.dump import dump_lines
from tests.store.traffic import agent_requests, make_entry


def read_pragmas(traces):
    names = ("page_size", "auto_vacuum", "journal_mode", "wal_autocheckpoint")
    return [traces.connection.execute(f"pragma {name}").fetchone()[0] for name in names]


def read_all_bodies(traces):
    return [traces.read_bodies(key) for key in range(1, traces.count_entries() + 1)]


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Overrides the fixture that would make them of one with large pages."""


@pytest.fixture
def older_path(traces_path, monkeypatch):
    """A database with calls, as it was made before there were large pages."""
    monkeypatch.setattr(trace_database, "PAGE_BYTES", database.SMALL_PAGE_BYTES)
    bodies = list(agent_requests(4))
    with TraceDatabase(traces_path) as traces:
        traces.insert([make_entry(request_body=body) for body in bodies])
    monkeypatch.undo()
    return traces_path


def test_pages_of_a_new_database_are_large_and_its_log_is_as_small_as_ever(traces):
    assert read_pragmas(traces) == [PAGE_BYTES, 2, "wal", 4 * 1024 * 1024 // PAGE_BYTES]


def measure_growth(path, page_bytes, monkeypatch):
    """Return by how much a database grows with texts of 1 to 4 KB."""
    monkeypatch.setattr(trace_database, "PAGE_BYTES", page_bytes)
    dice = Random(1)  # noqa: S311 - no secret
    with TraceDatabase(path) as traces:
        sizes = []
        for count in (20, 120):
            texts = [dice.randbytes(dice.randrange(500, 2000)).hex().encode() for _ in range(count)]
            traces.insert([make_entry(request_body=text, response_body=text) for text in texts])
            sizes.append(removal.used_bytes(traces.connection))
    return sizes[1] - sizes[0]


def test_texts_of_some_kilobytes_take_a_tenth_less_in_large_pages(tmp_path, monkeypatch):
    small = measure_growth(tmp_path / "small.db", PAGE_BYTES // 2, monkeypatch)
    large = measure_growth(tmp_path / "large.db", PAGE_BYTES, monkeypatch)
    assert large < 0.93 * small


def test_a_database_of_before_keeps_its_pages(older_path):
    with TraceDatabase(older_path) as traces:
        traces.insert([make_entry()])
        assert read_pragmas(traces) == [4096, 2, "wal", 1024]


def test_a_database_of_before_gets_large_pages_as_the_documentation_says(older_path):
    text = (ROOT / "docs" / "retention.md").read_text()
    (sql,) = re.findall(r'sqlite3 \S+ "(.+page_size=.+)"', text)
    with TraceDatabase(older_path) as traces:
        bodies = read_all_bodies(traces)
    with closing(database.open_copy(older_path)) as connection:
        before = list(dump_lines(connection))
    with closing(sqlite3.connect(older_path)) as connection:
        connection.executescript(sql)
    with TraceDatabase(older_path) as traces:
        assert read_pragmas(traces)[:3] == [PAGE_BYTES, 2, "wal"]
        assert read_all_bodies(traces) == bodies
        assert list(traces.verify()) == []
    with closing(database.open_copy(older_path)) as connection:
        assert list(dump_lines(connection)) == before
