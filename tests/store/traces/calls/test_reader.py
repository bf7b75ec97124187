import sqlite3

import pytest

from store.traces.calls.reader import EntryFilter, TraceReader, make_entry
from tests.store import traffic


@pytest.fixture
def reader(traces, traces_path):
    with TraceReader(traces_path) as reader:
        yield reader


def days(rows):
    return [row["created_at"][8:10] for row in rows]


def insert(traces, *created_on, **changes):
    traces.insert(
        [
            traffic.make_entry(created_at=f"2026-01-{day:02d}T00:00:00.000Z", **changes)
            for day in created_on
        ]
    )


def test_entries_come_in_order_of_arrival_page_after_page(traces, reader):
    insert(traces, *[3, 1, 2] * 200)
    found, place = [], ("", "")
    while page := reader.read_page(EntryFilter(), place, 70):
        found += page
        place = page[-1]["created_at"], page[-1]["entry_id"]
    assert days(found) == ["01"] * 200 + ["02"] * 200 + ["03"] * 200
    assert len({row["id"] for row in found}) == 600
    of_a_day = EntryFilter(since="2026-01-02", until="2026-01-03")
    assert days(reader.read_page(of_a_day, ("2026-01-02", ""), 600)) == ["02"] * 200


def test_a_page_does_not_read_what_is_behind_it(reader):
    plan = reader._db.execute(
        f"explain query plan {reader._select} where (created_at, entry_id) > ('2026', '')"
        " order by created_at, entry_id limit 10"
    ).fetchall()
    details = " ".join(row["detail"] for row in plan)
    assert "USING INDEX usage_created_at (created_at>?)" in details
    assert "RIGHT PART OF ORDER BY" in details  # only what arrived in the same instant is sorted


def test_what_was_inserted_is_read_in_that_order_between_two_ids(traces, reader):
    insert(traces, 3, 1, 2)
    assert reader.find_last_id() == 3
    assert days(reader.iter_inserted(1, 3, EntryFilter())) == ["01", "02"]
    assert days(reader.iter_inserted(0, 2, EntryFilter())) == ["03", "01"]
    assert days(reader.read_newest(2, 3, EntryFilter())) == ["01", "02"]


def test_a_row_has_the_columns_of_the_view_and_is_the_entry_again(traces, reader):
    entry = traffic.make_entry(request_body=b"{}", response_body=b"\xff")
    traces.insert([entry])
    (row,) = reader.read_page(EntryFilter(), ("", ""), 2)
    assert tuple(row) == reader.columns
    assert not {"request_body", "response_body"} & set(row)
    again = make_entry(row)
    assert again.entry_id == entry.entry_id
    assert again.cost_cents == entry.cost_cents
    assert again.streamed is True
    assert reader.read_bodies(row["id"]) == {"request_body": "{}", "response_body": b"\xff"}
    assert reader.read_bodies(99) is None


def test_a_reader_cannot_write_and_makes_no_database(traces_path, reader, tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._db.execute("delete from usage")
    with pytest.raises(sqlite3.OperationalError):
        TraceReader(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_a_database_that_is_just_being_made_is_not_ready(tmp_path):
    (tmp_path / "traces.db").touch()
    with TraceReader(tmp_path / "traces.db") as reader:
        assert not reader.is_ready


def test_calls_are_chosen_by_what_clients_say_of_them(traces, reader):
    traces.insert(
        [
            traffic.make_entry(entry_id="a", attributed_user="Ann", tags='["env:prod","nightly"]'),
            traffic.make_entry(entry_id="b", attributed_user="Ann", project="shop"),
            traffic.make_entry(entry_id="c", tags='["env:dev"]'),
        ]
    )

    def find(**only):
        rows = reader.read_page(EntryFilter(**only), ("", ""), 10)
        return [row["entry_id"] for row in rows]

    assert find(user="Ann") == ["a", "b"]
    assert find(user="Ann", project="shop") == ["b"]
    assert find(tag="ENV:prod") == ["a"]
    assert find(tag="nightly") == ["a"]
    assert find(tag="env") == []
