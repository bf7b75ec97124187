import json
import multiprocessing
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from metering.prices import PriceTable
from recorder import backfill as recorder_backfill
from recorder.backfill import Backfill
from recorder.background import RETRY_S
from recorder.open_databases import OpenDatabases
from recorder.requests import RequestReader
from store.traces import backfill, backfill_progress
from store.traces.backfill_progress import BODY_FIELDS
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.dying import die_after
from tests.store.traffic import agent_requests, make_entry

FILLED = (
    "request_model",
    "max_tokens",
    "message_count",
    "tool_count",
    "effort",
    "thinking_budget",
    "cache_ttl",
    "title_text",
    "stop_reason",
    "refusal_category",
    "thinking_tokens",
    "cache_write_1h_tokens",
    "web_search_requests",
    "output_tokens_per_s",
)
NEW = tuple(name for name in FILLED if name not in ("request_model",))
REQUEST = json.dumps(
    {
        "model": "claude-opus-5",
        "max_tokens": 5,
        "output_config": {"effort": "low"},
        "thinking": {"budget_tokens": 7},
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "messages": [{"role": "user", "content": "Mend\0 the test"}],
    }
).encode()
USAGE = {
    "input_tokens": 1,
    "output_tokens": 20,
    "cache_creation_input_tokens": 9,
    "output_tokens_details": {"thinking_tokens": 3},
    "server_tool_use": {"web_search_requests": 2},
}
STOP = {"stop_reason": "refusal", "stop_details": {"category": "bio"}}
DOCUMENT = json.dumps({"type": "message", "usage": USAGE, **STOP}).encode()
STREAM = b"".join(
    b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **data}).encode())
    for kind, data in (
        ("message_start", {"message": {"usage": USAGE}}),
        ("message_delta", {"delta": STOP, "usage": {"output_tokens": 20}}),
        ("message_stop", {}),
    )
)
KNOWN = {
    "request_model": "claude-opus-5",
    "max_tokens": 5,
    "message_count": 1,
    "tool_count": 0,
    "effort": "low",
    "thinking_budget": 7,
    "cache_ttl": "1h",
    "title_text": "Mend\N{REPLACEMENT CHARACTER} the test",
    "stop_reason": "refusal",
    "refusal_category": "bio",
    "thinking_tokens": 3,
    "cache_write_1h_tokens": 9,
    "web_search_requests": 2,
}
HOURS = "select * from rate_limits_hourly order by 1, 2"


def store_as_before(path, entries):
    """Store entries, and take away what a version without these columns did not have."""
    with TraceDatabase(path) as traces:
        traces.insert(entries)
        names = ", ".join(f"{name} = null" for name in NEW)
        traces.connection.execute(f"update usage set {names}, request_model = null")  # noqa: S608
        traces.connection.execute("delete from rate_limits_hourly")
        traces.connection.execute(
            "insert into backfills select ?, max(id) from usage", (BODY_FIELDS,)
        )


def read(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]


@pytest.fixture
def path(tmp_path):
    return trace_path(tmp_path, "org")


@pytest.fixture
def make_backfill(tmp_path):
    """Makes one of an organisation, which does one call in each step."""
    opened = []

    def make(clock_s=None, organization_id="org"):
        databases = OpenDatabases(tmp_path, RequestPreparer())
        opened.append(databases)
        ticks = iter(range(10**9))
        made = Backfill(databases, PriceTable, clock_s or (lambda: float(next(ticks))))
        made.begin(organization_id)
        return made

    yield make
    for databases in opened:
        databases.close_all()


def run(work):
    steps = 0
    while work.run_step():
        steps += 1
    return steps


@pytest.mark.parametrize(("body", "streamed"), [(DOCUMENT, False), (STREAM, True)])
def test_what_the_bodies_say_is_filled_in(path, make_backfill, body, streamed):
    entry = make_entry(
        request_body=REQUEST,
        response_body=body,
        streamed=streamed,
        output_tokens=20,
        duration_ms=1_100.0,
        ttfb_ms=100.0,
    )
    store_as_before(path, [entry])
    run(make_backfill())
    (row,) = read(path, f"select {', '.join(FILLED)} from usage_log")  # noqa: S608
    assert row == KNOWN | {"output_tokens_per_s": 20.0 if streamed else None}
    assert backfill_progress.count_left(path) == 0


def test_a_call_without_bodies_gets_its_speed(path, make_backfill):
    entry = make_entry(output_tokens=30, duration_ms=1_100.0, ttfb_ms=100.0)
    store_as_before(path, [entry])
    run(make_backfill())
    (row,) = read(path, f"select {', '.join(FILLED)} from usage_log")  # noqa: S608
    assert row == dict.fromkeys(FILLED) | {"output_tokens_per_s": 30.0}


def test_what_is_known_is_not_changed(path, make_backfill):
    store_as_before(path, [make_entry(request_body=REQUEST)])
    with TraceDatabase(path) as traces:
        traces.connection.execute("update usage set effort = 'kept', max_tokens = 0")
    run(make_backfill())
    (row,) = read(path, "select effort, max_tokens, thinking_budget from usage")
    assert row == {"effort": "kept", "max_tokens": 0, "thinking_budget": 7}


def test_the_newest_calls_come_first_and_progress_is_seen(path, make_backfill):
    store_as_before(path, [make_entry(request_body=REQUEST) for _ in range(3)])
    work = make_backfill()
    seen = []
    while work.run_step():
        rows = read(path, "select id from usage where effort is not null order by id")
        seen.append(([row["id"] for row in rows], backfill_progress.count_left(path)))
    assert seen == [([3], 2), ([2, 3], 1), ([1, 2, 3], 0)]


def test_calls_recorded_since_are_left_alone(path, make_backfill):
    store_as_before(path, [make_entry(request_body=REQUEST)])
    new = make_entry(request_body=REQUEST, status_code=429)
    with TraceDatabase(path) as traces:
        traces.insert([new])
    run(make_backfill())
    assert [row["effort"] for row in read(path, "select effort from usage order by id")] == [
        "low",
        None,
    ]
    (hour,) = read(path, HOURS)
    assert (hour["calls"], hour["rate_limited"]) == (2, 1)


def test_a_conversation_is_read_as_when_its_calls_were_recorded(path, make_backfill):
    entries = [make_entry(request_body=body, session_id="s") for body in agent_requests(30)]
    store_as_before(path, entries)
    run(make_backfill())
    rows = read(
        path, "select message_count, tool_count, cache_ttl, title_text from usage order by id"
    )
    assert [row["message_count"] for row in rows] == list(range(1, 60, 2))
    assert {(row["tool_count"], row["cache_ttl"]) for row in rows} == {(16, "5m")}
    assert len({row["title_text"] for row in rows}) == 6  # a person speaks in every fifth turn


@pytest.mark.parametrize("damage", ["piece", "too large", "reader"])
def test_a_call_that_cannot_be_read_keeps_no_other_from_it(
    path, make_backfill, monkeypatch, damage
):
    bodies = [REQUEST, b'{"messages":[{"role":"user","content":"unlike"}]}', REQUEST + b" "]
    store_as_before(path, [make_entry(request_body=body) for body in bodies])
    if damage == "piece":
        with TraceDatabase(path) as traces:
            traces.connection.execute("delete from pieces where text like '%unlike%'")
    elif damage == "too large":
        with TraceDatabase(path) as traces:
            size = backfill.MAX_BODY_BYTES + 1
            traces.connection.execute(
                "update usage set request_body_length = ? where id = 2", (size,)
            )
    else:
        original = RequestReader.read

        def fail(reader, text, *labels):
            if b"unlike" in text:
                raise RuntimeError("a mistake of ours")
            return original(reader, text, *labels)

        monkeypatch.setattr(RequestReader, "read", fail)
    run(make_backfill())
    rows = read(path, "select effort, message_count from usage order by id")
    assert [row["effort"] for row in rows] == ["low", None, "low"]
    assert rows[1]["message_count"] is None
    assert backfill_progress.count_left(path) == 0


def test_calls_that_retention_removed_are_skipped(path, make_backfill):
    store_as_before(path, [make_entry(request_body=REQUEST) for _ in range(3)])
    work = make_backfill()
    work.run_step()
    with TraceDatabase(path) as traces:
        traces.prune(before="2027", pause=lambda _: None)
    run(work)
    assert backfill_progress.count_left(path) == 0
    assert read(path, "select * from usage") == []


def test_a_database_that_is_locked_is_tried_again_later(path, make_backfill, tmp_path):
    store_as_before(path, [make_entry(request_body=REQUEST)])
    store_as_before(trace_path(tmp_path, "other"), [make_entry(request_body=REQUEST)])
    now_s = 0.0
    work = make_backfill(lambda: now_s)
    work.begin("other")
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        lock.execute("begin immediate")
        assert work.run_step()
    assert backfill_progress.count_left(path) == 1
    now_s += RETRY_S
    assert run(work) > 0
    assert backfill_progress.count_left(path) == 0
    assert backfill_progress.count_left(trace_path(tmp_path, "other")) == 0


@pytest.mark.parametrize("fault", ["locked", "corrupt"])
def test_a_database_that_cannot_be_written_delays_no_other(path, make_backfill, tmp_path, fault):
    """The clock stands still: whoever had to wait for it would wait for ever."""
    others = [trace_path(tmp_path, name) for name in ("second", "third")]
    for each in (path, *others):
        store_as_before(each, [make_entry(request_body=REQUEST) for _ in range(3)])
    work = make_backfill(lambda: 0.0)
    for each in others:
        work.begin(each.parent.name)
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        if fault == "locked":
            lock.execute("begin immediate")
        else:
            path.write_bytes(b"this is no database" * 1_000)
        for _ in range(3):
            assert work.run_step()
    assert [backfill_progress.count_left(each) for each in others] == [0, 0]
    assert work.run_step()


def test_one_step_takes_no_longer_than_it_may(path, make_backfill):
    """The clock moves on with each call that is read."""
    store_as_before(path, [make_entry(request_body=REQUEST) for _ in range(10)])
    ticks = iter(range(10**9))
    work = make_backfill(lambda: next(ticks) * recorder_backfill.STEP_S / 3)
    work.run_step()
    assert backfill_progress.count_left(path) == 7


def die_in_the_middle(folder, statements):
    databases = OpenDatabases(folder, RequestPreparer())
    ticks = iter(range(10**9))
    work = Backfill(databases, PriceTable, lambda: next(ticks) * recorder_backfill.STEP_S / 3)
    work.begin("org")
    die_after(databases.open("org").connection, statements)
    while work.run_step():
        pass
    os._exit(0)


@pytest.mark.slow
def test_whenever_it_is_killed_what_is_done_and_how_far_it_is_agree(path, tmp_path):
    """A killed process leaves what others see of the database at that statement."""
    store_as_before(path, [make_entry(request_body=REQUEST) for _ in range(10)])
    databases = OpenDatabases(tmp_path, RequestPreparer())
    ticks = iter(range(10**9))
    work = Backfill(databases, PriceTable, lambda: next(ticks) * recorder_backfill.STEP_S / 3)
    work.begin("org")
    seen = set()

    def look(_):
        filled = read(path, "select id from usage where effort is not null")
        hours = sum(row["calls"] for row in read(path, HOURS))
        seen.add((len(filled), hours, 10 - backfill_progress.count_left(path)))

    databases.open("org").connection.set_trace_callback(look)
    run(work)
    databases.close_all()
    assert len(seen) > 3
    assert [each for each in seen if len(set(each)) > 1] == []


@pytest.mark.slow
def test_a_process_killed_in_the_middle_is_taken_up_where_it_was(path, tmp_path, make_backfill):
    entries = [
        make_entry(request_body=REQUEST, response_body=DOCUMENT, streamed=False, status_code=429)
        for _ in range(10)
    ]
    store_as_before(path, entries)
    other = trace_path(tmp_path, "undisturbed")
    store_as_before(other, [replace(entry) for entry in entries])
    run(make_backfill(organization_id="undisturbed"))
    process = multiprocessing.get_context("spawn").Process(
        target=die_in_the_middle, args=(tmp_path, 22)
    )
    process.start()
    process.join()
    assert process.exitcode == 9
    assert backfill_progress.count_left(path) > 0
    run(make_backfill())
    for sql in (
        "select * from usage order by id",
        "select * from usage_cost",
        "select * from usage_hourly",
        HOURS,
    ):
        assert read(path, sql) == read(other, sql)
