"""Pages of calls, which go on wherever another copy has the same calls."""

import base64
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.errors import InvalidCursorError
from store.database import immediate
from store.pagination import encode_cursor
from store.traces.calls import call_list
from store.traces.calls.call_list import read_calls
from store.traces.calls.reader import BODIES, EntryFilter, Row, TraceReader
from store.traces.database import TraceDatabase
from store.traces.maintenance import removal
from tests.store.traffic import make_entry

ARRIVAL = "2026-01-31T12:00:00.000Z"


@dataclass(frozen=True, slots=True)
class Read:
    """A page that was encoded."""

    items: Sequence[Row]
    columns: Mapping[str, str]
    next_cursor: str | None
    size: int


def read(path, cursor=None, limit=2, *, with_bodies=False, **only):
    page = read_calls(path, "org", EntryFilter(**only), cursor, limit, with_bodies=with_bodies)
    encoded = b"".join(page.encode_items())
    return Read(json.loads(encoded), page.columns, page.next_cursor, len(encoded))


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


def read_all(path, limit=100):
    """Return all pages with bodies."""
    pages = [read(path, None, limit, with_bodies=True)]
    while pages[-1].next_cursor is not None:
        pages.append(read(path, pages[-1].next_cursor, limit, with_bodies=True))
    return pages


def test_a_page_ends_at_its_size_as_json(traces, traces_path, monkeypatch):
    """Not at that of its bodies, of which a control character takes six bytes."""
    monkeypatch.setattr(call_list, "PAGE_BYTES", 42_000)
    sizes = [10, 3_000, 3_000, 20_000, 10, 10, 6_000, 3_000]
    ids = [str(number) for number in range(len(sizes))]
    traces.insert(
        [
            make_entries(each, response_body=b"\1" * size, cost_items=())[0]
            for each, size in zip(ids, sizes, strict=True)
        ]
    )
    pages = read_all(traces_path)
    found = [
        (each["entry_id"], len(each["response_body"])) for page in pages for each in page.items
    ]
    assert found == list(zip(ids, sizes, strict=True))
    assert all(page.size <= 42_000 or len(page.items) == 1 for page in pages)
    assert len(pages) == 4
    assert [len(page.items) for page in pages][1] == 1


@pytest.mark.parametrize("whole_bytes", [call_list.WHOLE_BYTES, 0])
def test_bodies_are_those_of_the_view(traces, traces_path, monkeypatch, whole_bytes):
    monkeypatch.setattr(call_list, "WHOLE_BYTES", whole_bytes)
    request = json.dumps({"messages": ['é\u2028\1 \\ "' * 100_000, "x" * 1_000_000]}).encode()
    traces.insert(
        [
            *make_entries("a", request_body=request, response_body="é\1".encode() * 300_000),
            *make_entries("b", request_body=b"\xff\0" * 200_000, response_body=b""),
            *make_entries("c", request_body=None, response_body=None),
            *make_entries("d", request_body=b"", response_body=b"\0"),
        ]
    )
    with TraceReader(traces_path) as reader:
        wanted = [reader.read_bodies(number) for number in range(1, 5)]
    items = [each for page in read_all(traces_path) for each in page.items]
    found = [{name: restore(each[name]) for name in BODIES} for each in items]
    assert found == wanted


def restore(body):
    return base64.b64decode(body["encoded"]) if isinstance(body, dict) else body


def test_a_large_body_comes_alone_and_in_parts(traces, traces_path):
    body = b"\1" * 3_000_000
    traces.insert(make_entries("a", "b", "c", response_body=body))
    page = read_calls(traces_path, "org", EntryFilter(), None, 3, with_bodies=True)
    parts = list(page.encode_items())
    assert [each["response_body"] for each in json.loads(b"".join(parts))] == [body.decode()]
    assert max(map(len, parts)) < 2_000_000
    assert page.next_cursor is not None


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_a_call_that_is_removed_meanwhile_is_left_out(traces, traces_path, size):
    traces.insert(make_entries("a", "b", "c", response_body=b"x" * size))
    page = read_calls(traces_path, "org", EntryFilter(), None, 3, with_bodies=True)
    with immediate(traces.connection):
        removal.remove_entry(traces.connection, 2, set())
    assert [each["entry_id"] for each in json.loads(b"".join(page.encode_items()))] == ["a", "c"]


def test_a_body_that_lacks_a_part_is_an_error_of_the_database(traces, traces_path):
    traces.insert(make_entries("a", request_body=b'{"model": "x"}'))
    traces.connection.execute("delete from pieces")
    with pytest.raises(sqlite3.DatabaseError, match="a body is not whole"):
        read(traces_path, with_bodies=True)


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
