"""New databases have large pages, which take less room."""

from random import Random

import pytest

from store.traces import database as trace_database
from store.traces.database import PAGE_BYTES, TraceDatabase
from store.traces.maintenance import removal
from tests.store.traffic import make_entry


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Overrides the fixture that would make them of one with large pages."""


def read_pragmas(traces):
    names = ("page_size", "auto_vacuum", "journal_mode", "wal_autocheckpoint")
    return [traces.connection.execute(f"pragma {name}").fetchone()[0] for name in names]


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
