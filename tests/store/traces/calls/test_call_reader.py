import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest

from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import _NEXT, _PREVIOUS, CHUNK_BYTES, BodySize, CallReader
from tests.store.traffic import agent_requests, make_entry, make_item

BLOB = b"\xff\x00" * CHUNK_BYTES
SIDES = ("request", "response")


@pytest.fixture
def reader(traces, traces_path):
    with CallReader.open(traces_path) as reader:
        yield reader


def test_a_call_has_its_fields_and_line_items(traces, reader):
    items = (make_item(), make_item(component="output", cents=Decimal("0.1")))
    entry = make_entry(cost_items=items, request_body=b"{}", response_body=BLOB)
    traces.insert([entry])
    call = reader.find_call(1)
    assert call is not None
    assert call.entry.cost_items == items
    assert (call.entry.entry_id, call.entry.cost_cents) == (entry.entry_id, entry.cost_cents)
    assert call.request == BodySize(length=2, is_text=True)
    assert call.response == BodySize(length=len(BLOB), is_text=False)


def test_there_is_no_call_of_an_unknown_id(reader):
    assert reader.find_call(1) is None
    assert reader.find_call(10**18 - 1) is None


def test_bodies_that_were_not_kept_have_no_size(traces, reader):
    traces.insert([make_entry()])
    call = reader.find_call(1)
    assert (call.request, call.response) == (None, None)
    assert [b"".join(reader.iter_body(1, side)) for side in SIDES] == [b"", b""]


def test_neighbours_are_those_of_the_same_session(traces, reader):
    sessions = ["a", "b", None, "a", "b", None, "a"]
    traces.insert([make_entry(session_id=session) for session in sessions])
    found = [reader.find_call(n) for n in range(1, 8)]
    assert [(call.previous_id, call.next_id) for call in found] == [
        (None, 4),
        (None, 5),
        (None, None),
        (1, 7),
        (2, None),
        (None, None),
        (4, None),
    ]


def test_neighbours_are_those_of_the_same_agent_by_arrival(traces, reader):
    agents = [None, "x", None, "x", None]
    traces.insert(
        [
            make_entry(
                session_id="a", agent_id=agent, created_at=f"2026-01-02T03:04:0{9 - n // 2}.000Z"
            )
            for n, agent in enumerate(agents)
        ]
    )
    found = [reader.find_call(n) for n in range(1, 6)]
    # 1 arrived at :09, 2 at :09, 3 and 4 at :08, 5 at :07.
    assert [(call.previous_id, call.next_id) for call in found] == [
        (3, None),
        (4, None),
        (5, 1),
        (None, 2),
        (None, 3),
    ]


@pytest.mark.parametrize("question", [_PREVIOUS, _NEXT])
def test_neighbours_are_found_by_an_index_alone(traces, question):
    plan = traces.connection.execute(
        f"explain query plan {question}", ("a", None, "2026", 1)
    ).fetchall()
    assert len(plan) == 1, "nothing is sorted"
    assert "USING COVERING INDEX usage_session (session_id=? AND agent_id=?" in plan[0][3]


@pytest.mark.parametrize("body", [b"", b"{}", BLOB, "ü".encode() * CHUNK_BYTES, None])
def test_bodies_come_exactly_and_in_chunks(traces, reader, body):
    traces.insert([make_entry(request_body=body, response_body=body)])
    for side in SIDES:
        chunks = list(reader.iter_body(1, side))
        assert b"".join(chunks) == (body or b"")
        assert all(chunks)
    assert all(len(chunk) <= CHUNK_BYTES for chunk in reader.iter_body(1, "response"))


def test_a_conversation_comes_exactly(traces, reader):
    requests = list(agent_requests(12))
    traces.insert([make_entry(request_body=body) for body in requests])
    for number, body in enumerate(requests, 1):
        assert b"".join(reader.iter_body(number, "request")) == body
        assert reader.read_body(number, "request", 1000) == body[:1000]


def test_no_transaction_is_open_between_two_chunks(traces, reader):
    *_, long = agent_requests(30)
    traces.insert([make_entry(request_body=long, response_body=BLOB)])
    for side in SIDES:
        chunks = reader.iter_body(1, side)
        next(chunks)
        traces.insert([make_entry()])
        busy, _, _ = traces.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        assert not busy
        assert list(chunks)


def test_a_body_removed_meanwhile_is_missing_and_not_cut(traces, reader):
    traces.insert([make_entry(response_body=BLOB)])
    chunks = reader.iter_body(1, "response")
    next(chunks)
    traces.connection.execute("delete from response_bodies")
    with pytest.raises(MissingPieceError):
        list(chunks)


def test_nothing_can_be_written(traces, reader):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._db.execute("delete from usage")


def test_there_is_nothing_to_read_where_there_is_no_file(tmp_path):
    with pytest.raises(sqlite3.OperationalError), closing(CallReader.open(tmp_path / "none.db")):
        pass
