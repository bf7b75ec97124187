"""Streams that were cut and recorded before there were estimates."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import count

import pytest

from metering.billed_passes import make_call
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.usage import read_usage
from recorder import backfill as recorder_backfill
from recorder.backfill import Backfill
from recorder.open_databases import OpenDatabases
from runtime import clock
from store.traces import backfill_progress, cut_streams
from store.traces.backfill_progress import CUT_STREAMS
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.metering.responses import event, fallback_block, make_body, text_block
from tests.recorder.test_record import DELTA, ERROR, START, TEXT, make

FALLBACK = event(
    "content_block_start",
    index=1,
    content_block=fallback_block("claude-opus-5", "claude-haiku-4-5"),
)
COMPACTION = event(
    "content_block_start", index=0, content_block={"type": "compaction", "content": "x" * 370}
)
CUTS = [
    START + TEXT,
    START + TEXT + ERROR,
    START + TEXT + FALLBACK + TEXT,
    START + COMPACTION + TEXT,
]
CALLS = "select * from usage order by id"
COSTS = "select * from usage_cost order by usage_id, line"
HOURS = "select * from usage_hourly where entries or cost_cents order by 1, 2, 3, 4, 5, 6, 7"
_numbers = count(1)


def record(body, **fields):
    """Return the entry of a stream that was cut, as it is recorded today."""
    entry_id = f"entry-{next(_numbers)}"
    return make(body, outcome="client_disconnected", head={"entry_id": entry_id}, **fields)


def as_before(entry):
    """Return the entry as it was recorded before there were estimates."""
    usage = read_usage(200, "text/event-stream", entry.response_body, is_complete=False)
    call = make_call(
        usage,
        created_at=clock.parse_instant(entry.created_at),
        outcome=entry.outcome,
        status_code=200,
    )
    items, cents = price_call(call, PriceTable())
    return replace(
        entry,
        usage_source="partial",
        tokens=usage.tokens,
        cost_items=items,
        cost_cents=cents,
        estimated_cents=None,
    )


def store(path, entries):
    with TraceDatabase(path) as traces:
        traces.insert(entries)
        traces.connection.execute(
            "insert into backfills select ?, max(id) from usage", (CUT_STREAMS,)
        )


def read(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def read_all(path):
    return [read(path, sql) for sql in (CALLS, COSTS, HOURS)]


def read_sources(path):
    return [source for (source,) in read(path, "select usage_source from usage order by id")]


@pytest.fixture
def path(tmp_path):
    return trace_path(tmp_path, "org")


@pytest.fixture
def work(tmp_path):
    """Works on one organisation, one call in each step."""
    databases = OpenDatabases(tmp_path, RequestPreparer())
    ticks = count()
    work = Backfill(databases, PriceTable, lambda: float(next(ticks)))
    work.begin("org")
    yield work
    databases.close_all()


def run(work):
    while work.run_step():
        pass


def test_an_earlier_stream_becomes_what_it_would_be_if_it_were_recorded_now(path, tmp_path, work):
    entries = [record(body) for body in CUTS]
    today = trace_path(tmp_path, "today")
    with TraceDatabase(today) as traces:
        traces.insert(entries)
    store(path, [as_before(entry) for entry in entries])
    assert read_all(path) != read_all(today)
    run(work)
    calls, costs, hours = read_all(path)
    expected_calls, expected_costs, expected_hours = read_all(today)
    assert (calls, costs) == (expected_calls, expected_costs)
    assert [row[:14] for row in hours] == [row[:14] for row in expected_hours]
    assert [row[14:] for row in hours] == [pytest.approx(row[14:]) for row in expected_hours]
    with TraceDatabase(path) as traces:
        assert list(traces.verify()) == []


@pytest.mark.parametrize(
    "entry",
    [
        record(START + TEXT + DELTA),  # its counts had come
        as_before(record(START + TEXT, ending={"response_lost": True})),
        replace(as_before(record(START + TEXT)), response_body=None),
        replace(as_before(record(START + TEXT)), usage_source="final"),
        replace(as_before(record(START + TEXT)), response_body=b'{"type":"message","content":['),
    ],
)
def test_what_cannot_be_estimated_stays_as_it_is(path, work, entry):
    store(path, [entry])
    before = read_all(path)
    run(work)
    assert read_all(path) == before
    assert backfill_progress.count_left(path) == 0


def test_a_known_cost_is_not_lost_for_want_of_a_price(path, work):
    entry = as_before(record(START.replace(b"claude-opus-5", b"claude-gone-1") + TEXT))
    store(path, [replace(entry, cost_cents=entry.cost_items[0].quantity)])
    run(work)
    assert read_sources(path) == ["partial"]


def test_a_stream_without_a_known_price_has_its_tokens_estimated(path, work):
    store(path, [as_before(record(START.replace(b"claude-opus-5", b"claude-new-9") + TEXT))])
    run(work)
    assert read(path, "select usage_source, output_tokens, cost_cents from usage") == [
        ("estimated", 200, None)
    ]


def test_the_newest_streams_come_first_and_progress_is_seen(path, work):
    store(path, [as_before(record(START + TEXT)) for _ in range(3)])
    seen = []
    while work.run_step():
        seen.append((read_sources(path), backfill_progress.count_left(path)))
    assert seen == [
        (["partial", "partial", "estimated"], 2),
        (["partial", "estimated", "estimated"], 1),
    ]


def test_calls_are_looked_at_a_few_at_a_time(path, work, monkeypatch):
    monkeypatch.setattr(cut_streams, "WINDOW", 2)
    others = [make(head={"entry_id": f"whole-{number}"}) for number in range(5)]
    store(path, [*others[:2], as_before(record(START + TEXT)), *others[2:]])
    left = []
    while work.run_step():
        left.append(backfill_progress.count_left(path))
    assert left == [4, 2]
    assert read_sources(path).count("estimated") == 1


@pytest.mark.slow
def test_whenever_it_is_killed_what_is_done_and_how_far_it_is_agree(path, tmp_path):
    """A killed process leaves what others see of the database at that statement."""
    store(path, [as_before(record(START + TEXT)) for _ in range(10)])
    databases = OpenDatabases(tmp_path, RequestPreparer())
    ticks = count()
    work = Backfill(databases, PriceTable, lambda: next(ticks) * recorder_backfill.STEP_S / 3)
    work.begin("org")
    seen = set()

    def look(_):
        done = read_sources(path).count("estimated")
        ((cents,),) = read(path, "select round(sum(estimated_cents), 6) from usage_hourly")
        seen.add((done, cents / 0.5, 10 - backfill_progress.count_left(path)))

    databases.open("org").connection.set_trace_callback(look)
    run(work)
    databases.close_all()
    assert len(seen) > 3
    assert [each for each in seen if len(set(each)) > 1] == []


def test_it_is_taken_up_where_it_was(path, tmp_path, work):
    store(path, [as_before(record(START + TEXT)) for _ in range(3)])
    work.run_step()
    databases = OpenDatabases(tmp_path, RequestPreparer())
    again = Backfill(databases, PriceTable, lambda: 0.0)
    again.begin("org")
    run(again)
    databases.close_all()
    assert read_sources(path) == ["estimated"] * 3


def test_a_stream_is_estimated_by_the_stored_responses_of_its_model(path, work):
    """The complete ones have two characters per token."""
    whole = make_body(
        "stream",
        [text_block("x" * 2_000)],
        {"input_tokens": 1, "output_tokens": 1_008},
        model="claude-opus-5",
    )
    complete = [make(whole, head={"entry_id": f"whole-{number}"}) for number in range(12)]
    store(path, [*complete, as_before(record(START + TEXT))])
    run(work)
    ((tokens,),) = read(path, "select output_tokens from usage where usage_source = 'estimated'")
    assert tokens == pytest.approx(370, abs=3)


def test_sizes_that_were_measured_since_come_before_stored_responses(path, work):
    store(path, [as_before(record(START + TEXT))])
    with TraceDatabase(path) as traces:
        traces.connection.execute(
            "insert into output_sizes values ('claude-opus-5', 1, 5e6, 1e6, 0, 0)"
        )
    run(work)
    assert read(path, "select output_tokens from usage") == [(148,)]


def test_the_advisor_of_an_earlier_stream_is_named_by_its_stored_request(path, work):
    content = {"type": "advisor_result", "text": "x" * 370}
    advice = {"type": "advisor_tool_result", "tool_use_id": "t", "content": content}
    tools = [{"type": "advisor_20260301", "name": "advisor", "model": "claude-haiku-4-5"}]
    body = START + TEXT + event("content_block_start", index=1, content_block=advice)
    request = json.dumps({"model": "claude-opus-5", "tools": tools}).encode()
    store(path, [as_before(record(body, request=request))])
    run(work)
    assert read(path, "select model, quantity from usage_cost where line = 0") == [
        ("claude-haiku-4-5", 100)
    ]
