"""Pages of calls, which go on wherever another copy has the same calls."""

from pathlib import Path

import pytest

from runtime.errors import InvalidCursorError
from store.pagination import encode_cursor
from store.traces import call_list
from store.traces.call_list import read_calls
from store.traces.database import TraceDatabase
from store.traces.reader import EntryFilter
from tests.store.traffic import make_entry

ARRIVAL = "2026-01-31T12:00:00.000Z"


def read(path, cursor=None, limit=2, *, with_bodies=False, **only):
    return read_calls(path, "org", EntryFilter(**only), cursor, limit, with_bodies=with_bodies)


def make_entries(*ids, **changes):
    """Return entries of the same instant."""
    return [make_entry(entry_id=each, created_at=ARRIVAL, **changes) for each in ids]


def test_a_list_that_begins_in_one_copy_goes_on_in_another(traces, traces_path, tmp_path):
    traces.insert(make_entries("c", "a", "b"))
    copy = tmp_path / "copy.db"
    with TraceDatabase(copy) as other:
        other.insert(make_entries("b", "c", "a"))
    first = read(traces_path)
    assert [each["entry_id"] for each in first.items] == ["a", "b"]
    second = read(copy, first.next_cursor)
    assert [each["entry_id"] for each in second.items] == ["c"]
    assert second.next_cursor is None


def test_large_bodies_end_a_page(traces, traces_path, monkeypatch):
    monkeypatch.setattr(call_list, "PAGE_BYTES", 10)
    traces.insert(make_entries("a", "b", "c", request_body=b"0123456789", response_body=b"\xff"))
    found, cursor = [], None
    while True:
        page = read(traces_path, cursor, 3, with_bodies=True)
        assert len(page.items) == 1
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [(each["organization_id"], each["entry_id"]) for each in found] == [
        ("org", "a"),
        ("org", "b"),
        ("org", "c"),
    ]
    assert found[0]["request_body"] == "0123456789"
    assert found[0]["response_body"] == {"$base64": True, "encoded": "/w=="}
    assert list(page.columns)[-2:] == ["request_body", "response_body"]
    assert list(found[0]) == list(page.columns)


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_search_for_few_calls_goes_on_page_after_page(traces, traces_path, monkeypatch, limit):
    """Else whoever asks for a model that was never used would keep a thread for as long as they like."""
    monkeypatch.setattr(call_list, "SEARCHED", 3)
    days = [*range(1, 10), 9, 9, 9, 9, 9, *range(10, 20)]
    traces.insert(
        [
            make_entry(
                entry_id=f"{number:02}",
                created_at=f"2026-01-{day:02}T00:00:00.000Z",
                model="rare" if number in (8, 12, 23) else "m",
            )
            for number, day in enumerate(days)
        ]
    )
    found, cursor, pages = [], None, 0
    while True:
        page = read(traces_path, cursor, limit, model="rare", until="2026-01-19T00:00:00.000Z")
        found += [each["entry_id"] for each in page.items]
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ["08", "12"]
    assert 5 <= pages <= 10


def test_before_the_first_call_there_is_an_empty_page(tmp_path: Path):
    page = read(tmp_path / "none.db")
    assert (list(page.columns), list(page.items), page.next_cursor) == (
        ["organization_id"],
        [],
        None,
    )


@pytest.mark.parametrize("cursor", ["x", "", *map(encode_cursor, ("1", "[1,2]", '["a"]', "{"))])
def test_a_cursor_that_is_none_is_refused(traces_path, traces, cursor):
    with pytest.raises(InvalidCursorError):
        read(traces_path, cursor)
