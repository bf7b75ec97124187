import hashlib
import multiprocessing
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from metering.billed_passes import Call
from metering.delivered import OutputSize
from metering.entry import UsageLogEntry
from metering.rate_limits import RateLimits
from runtime import clock
from store.spool.format import Rejection
from store.traces.bodies import pieces
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.costs import NewCost
from store.traces.database import PAGE_BYTES, TraceDatabase
from store.traces.paths import trace_path
from store.traces.sums.rollup import SUMS
from tests.store.dump import dump_lines
from tests.store.dying import die_after
from tests.store.traffic import agent_requests, make_entry, make_item
from tests.upstream import PATIENCE_S

BODIES = {
    "empty": b"",
    "json": b'{"messages":[{"role":"user","content":"hi"}]}',
    "text": "“ü” €😀 \ufeff\ufffe".encode(),
    "lone surrogate escape": rb'{"messages":[{"role":"user","content":"\ud800 \u0000"}]}',
    "one byte": b"x",
    "carriage returns": b"data: a\r\n\r\ndata: b\n\r",
    "NUL": b'{"messages":[{"role":"user","content":"a\0b"}]}',
    "only NUL": b"\0",
    "not UTF-8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
    "lone surrogate in UTF-8": b"\xed\xa0\x80",
    "overlong": b"\xc0\x80",
    "cut off inside a character": "é".encode()[:1],
}
TEXTS = {"empty", "json", "text", "lone surrogate escape", "one byte", "carriage returns"}

COUNTED = make_entry(
    status_code=429,
    outcome="upstream_error",
    rate_limits=RateLimits(requests_limit=50, requests_remaining=40, retry_after_s=7.0),
    output_size=OutputSize(characters=400, tokens=100, thinking_characters=90, thinking_tokens=30),
    agent_id="a",
    duration_ms=1.0,
)
"""An entry that is in every table of sums."""
SUMMED = (
    "usage_hourly",
    "usage_daily",
    "timings_daily",
    "agents_daily",
    "rate_limits_hourly",
    "output_sizes",
    "call_counters",
    "time_counters",
)


def rows(traces: TraceDatabase, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    return traces.connection.execute(sql, parameters).fetchall()


def hourly(traces: TraceDatabase) -> list[dict[str, Any]]:
    found = rows(traces, f"select {', '.join(SUMS)} from usage_hourly order by hour, model")  # noqa: S608
    return [dict(zip(SUMS, row, strict=True)) for row in found]


def agent_entries(turns: int, seed: int = 1) -> list[UsageLogEntry]:
    return [
        make_entry(request_body=body, response_body=b"data: {}\n\n" * 10)
        for body in agent_requests(turns, seed)
    ]


def counts(traces: TraceDatabase) -> list[tuple[object, ...]]:
    tables = ("usage", "request_bodies", "response_bodies", "usage_cost", "segments", "pieces")
    return [(table, *rows(traces, f"select count(*) from {table}")[0]) for table in tables]  # noqa: S608


def dump(traces: TraceDatabase) -> list[str]:
    """Everything but the next id to give out, which a refused insert moves."""
    return [
        line
        for line in dump_lines(traces.connection)
        if "('pieces'," not in line and "('usage'," not in line
    ]


# --- paths


def test_what_is_stored_already_is_looked_up_for_a_whole_batch(traces):
    reads: list[int] = []
    for turns in (1, 2, 20):
        entries = agent_entries(turns, seed=turns)
        statements: list[str] = []
        traces.connection.set_trace_callback(statements.append)
        traces.insert(entries)
        traces.connection.set_trace_callback(None)
        reads.append(sum(each.startswith("select") for each in statements))
    assert reads[1] == reads[2]


def test_each_organization_has_a_folder_of_its_own():
    path = trace_path(Path("data"), "org_A-1")
    assert path == Path("data/traces/org_A-1/traces.db")


@pytest.mark.parametrize("bad", ["", "..", "a/b", "a b", "ä", "a\n", "a\0", "."])
def test_an_organization_id_cannot_leave_its_folder(bad):
    with pytest.raises(ValueError, match="not an organisation id"):
        trace_path(Path("data"), bad)


# --- bodies


@pytest.mark.parametrize("name", BODIES)
def test_bodies_come_back_exactly(traces, name):
    body = BODIES[name]
    entry = make_entry(request_body=body, response_body=body)
    assert traces.insert([entry]) == 1
    read = traces.read_bodies(entry.entry_id)
    assert (read.request, read.response) == (body, body)
    assert traces.read_bodies(1) == read
    expected = body.decode() if name in TEXTS else body
    shown = rows(traces, "select request_body, response_body from usage_log")
    assert shown == [(expected, expected)]
    assert list(traces.verify()) == []


def test_a_body_that_was_not_kept_is_null_and_an_empty_one_is_not(traces):
    traces.insert([make_entry(), make_entry(request_body=b"", response_body=b"")])
    assert rows(traces, "select request_body, response_body from usage_log order by id") == [
        (None, None),
        ("", ""),
    ]
    kept = traces.read_bodies(1)
    assert (kept.request, kept.response) == (None, None)
    assert list(traces.verify()) == []


def test_a_fresh_plain_connection_can_select_everything(traces, traces_path):
    traces.insert([make_entry(request_body=body, response_body=body) for body in BODIES.values()])
    traces.insert([make_entry()])
    with closing(sqlite3.connect(traces_path)) as plain:
        found = plain.execute(
            "select *, typeof(request_body), typeof(response_body) from usage_log order by id"
        ).fetchall()
    types = ["text" if name in TEXTS else "blob" for name in BODIES]
    assert [row[-2:] for row in found] == [(each, each) for each in types] + [("null", "null")]


def test_the_view_keeps_the_order_of_thousands_of_pieces(traces):
    """SQLite 3.40 keeps the order of a sub-query under group_concat, and does not promise it."""
    messages = [b'{"role":"user","content":"%d"},' % n for n in range(3000)]
    forwards = b"[" + b"".join(messages) + b"]"
    # The same pieces again in another order, so that order of id is not order of the body.
    backwards = b"[" + b"".join(reversed(messages)) + b"]"
    twice = b"[" + b"".join(messages[::2] + messages[::-3] + messages[:500] * 2) + b"]"
    bodies = [forwards, backwards, twice]
    sizes = [sum(len(each.piece_ends) for each in pieces.split(body)) for body in bodies]
    assert min(sizes) > 2000
    traces.insert([make_entry(request_body=body) for body in bodies])
    for statistics in ("", "analyze"):  # which may change the plan
        traces.connection.execute(statistics)
        shown = rows(traces, "select request_body from usage_log order by id")
        assert [row[0].encode() for row in shown] == bodies
    assert [traces.read_bodies(n).request for n in (1, 2, 3)] == bodies


def test_queries_without_bodies_read_no_body(traces):
    roots = dict(rows(traces, "select rootpage, name from sqlite_schema where rootpage > 0"))

    def tables_read(sql: str) -> set[object]:
        return {roots[row[3]] for row in rows(traces, f"explain {sql}") if row[1] == "OpenRead"}

    for sql in (
        "select id, model, cost_cents from usage_log where id = 1",
        "select id, created_at, status_code from usage_log order by id desc limit 50",
    ):
        assert tables_read(sql) == {"usage"}
    for sql in (
        "select model, count(*) from usage_log group by model",
        "select model, count(*) from (select * from usage_log) group by model",
    ):
        assert tables_read(sql) == {"usage_model"}
    assert tables_read("select count(*) from usage_log") == {"usage_created_at"}
    assert "pieces" in tables_read("select request_body from usage_log")


def test_an_unknown_entry_has_no_bodies(traces):
    assert traces.read_bodies("nobody") is None
    assert traces.read_bodies(1) is None


@pytest.mark.slow
def test_an_agent_session_costs_what_is_new_in_it(traces, traces_path):
    entries = agent_entries(200)
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    empty = traces_path.stat().st_size
    for start in range(0, 200, 20):
        traces.insert(entries[start : start + 20])
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    responses = sum(len(entry.response_body or b"") for entry in entries)
    sent = sum(len(entry.request_body or b"") for entry in entries)
    assert sent / 200 > 150_000
    assert (traces_path.stat().st_size - empty - responses) / 200 <= 5_000


# --- rows


def test_ids_follow_insertion_and_are_never_used_again(traces):
    traces.insert([make_entry(), make_entry()])
    traces.prune(before="9999", pause=lambda _: None)
    traces.insert([make_entry()])
    assert rows(traces, "select id from usage_log") == [(3,)]


def test_text_that_sqlite_cannot_hold_does_not_keep_a_batch_out(traces):
    item = make_item(model="m\0\ud800", speed="\0")
    traces.insert([make_entry(model="m\0\ud800", client="ü", cost_items=(item,)), make_entry()])
    assert rows(traces, "select model, client from usage_log where id = 1") == [("m\ufffd?", "ü")]
    assert rows(traces, "select model, speed from usage_cost where usage_id = 1") == [
        ("m\ufffd?", "\ufffd")
    ]
    assert rows(traces, "select count(*) from usage_hourly where model = 'm\ufffd?'") == [(1,)]


def test_inserting_again_changes_nothing(traces):
    entries = [*agent_entries(5), COUNTED]
    assert traces.insert([*entries, COUNTED]) == 6
    before = dump(traces)
    assert traces.insert(entries) == 0
    assert dump(traces) == before


def test_sums_stay_when_their_calls_are_removed(traces):
    traces.insert([*agent_entries(5), COUNTED])
    before = {table: rows(traces, f"select * from {table}") for table in SUMMED}  # noqa: S608
    assert all(before.values())
    traces.prune(before="9999", pause=lambda _: None)
    assert traces.count_entries() == 0
    assert {table: rows(traces, f"select * from {table}") for table in SUMMED} == before  # noqa: S608


def test_only_what_is_new_in_a_batch_is_counted(traces):
    old, new = make_entry(), make_entry()
    traces.insert([old])
    assert traces.insert([old, new, new]) == 1
    assert hourly(traces)[0]["entries"] == 2


# --- hourly sums and rejections


def test_rejections_of_a_flush_read_again_are_not_counted_twice(traces):
    def rejection(hour: str, count: int) -> Rejection:
        return Rejection(
            organization_id="org_1",
            proxy_endpoint_id="pe_1",
            slug="default",
            bucket="messages",
            hour=hour,
            count=count,
        )

    traces.insert_rejections("f1", [rejection("2026-01-02T03", 3), rejection("2026-01-02T04", 1)])
    traces.insert_rejections("f1", [rejection("2026-01-02T03", 3), rejection("2026-01-02T04", 1)])
    traces.insert_rejections("f2", [rejection("2026-01-02T03", 5), rejection("2026-01-02T03", 1)])
    assert rows(traces, "select * from rejections_hourly order by hour") == [
        ("2026-01-02T03", "pe_1", "default", "messages", 9),
        ("2026-01-02T04", "pe_1", "default", "messages", 1),
    ]


# --- costs


def test_line_items_come_back_exactly_and_in_order(traces):
    items = (
        make_item(),
        make_item(component="output", cents=Decimal("40.740711"), rate_usd=Decimal("18.75")),
        make_item(pass_index=1, model=None, rate_usd=None, multiplier=None, cents=None),
        make_item(speed="fast", note="sum_of_passes"),
        make_item(unbilled_reason="declined_hop", multiplier=Decimal(0), cents=Decimal(0)),
    )
    traces.insert([make_entry(cost_items=items, cost_cents=Decimal("0.1"))])
    (stored,) = traces.iter_costs()
    assert stored.call.items == items
    assert stored.cost_cents == Decimal("0.1")


def test_what_pricing_needs_of_an_entry_without_a_cost_comes_back(traces):
    unpriced = make_entry(cost_cents=None, speed="fast", inference_geo="us", service_tier="batch")
    traces.insert([make_entry(), unpriced])
    (found,) = traces.iter_unpriced()
    assert (found.usage_id, found.entry_id) == (2, unpriced.entry_id)
    assert found.call == Call(
        created_at=clock.parse_instant(unpriced.created_at),
        outcome="complete",
        status_code=200,
        usage_source="final",
        model=unpriced.model,
        service_tier="batch",
        speed="fast",
        inference_geo="us",
        items=unpriced.cost_items,
    )


def test_an_entry_that_is_gone_gets_no_cost(traces):
    assert traces.update_costs([NewCost(usage_id=7, cost_cents=None, cost_items=())]) == 0
    assert rows(traces, "select * from usage_hourly") == []


@pytest.mark.slow
def test_all_unpriced_entries_can_be_priced_while_they_are_listed(traces):
    traces.insert([make_entry(cost_cents=None, cost_items=()) for _ in range(1200)])
    item = make_item(cents=Decimal(1))
    for stored in traces.iter_unpriced():
        traces.update_costs(
            [NewCost(usage_id=stored.usage_id, cost_cents=Decimal(1), cost_items=(item,))]
        )
    assert hourly(traces)[0]["unpriced"] == 0
    assert hourly(traces)[0]["cost_cents"] == 1200


# --- failures


def fail_at(traces: TraceDatabase, table: str) -> None:
    """Let the next insert into this table fail as a full disk would."""
    traces.connection.execute(
        f"create temp trigger full before insert on main.{table}"
        " begin select raise(rollback, 'disk is full'); end"
    )


def test_a_batch_that_fails_leaves_nothing_and_can_be_repeated(traces):
    first, second = agent_entries(12)[:6], agent_entries(12)[6:]
    traces.insert(first)
    before = counts(traces)
    fail_at(traces, "usage_hourly")
    with pytest.raises(sqlite3.IntegrityError, match="disk is full"):
        traces.insert(second)
    assert counts(traces) == before
    assert not traces.connection.in_transaction
    traces.connection.execute("drop trigger full")
    assert traces.insert(second) == 6
    assert list(traces.verify()) == []


def test_ids_given_out_before_a_rollback_are_forgotten(traces):
    """The second batch shares its text with the one that was rolled back."""
    entry = agent_entries(1)[0]
    fail_at(traces, "usage_hourly")
    with pytest.raises(sqlite3.IntegrityError):
        traces.insert([entry])
    traces.connection.execute("drop trigger full")
    traces.insert(agent_entries(1, seed=2))  # takes the ids that the first one had
    traces.insert([entry])
    assert traces.read_bodies(entry.entry_id).request == entry.request_body
    assert list(traces.verify()) == []


def test_a_locked_database_is_reported_and_recovers(traces, traces_path):
    with closing(sqlite3.connect(traces_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            traces.insert([make_entry()])
        other.execute("rollback")
    assert traces.insert([make_entry()]) == 1


def insert_and_die(path: Path, entries: list[UsageLogEntry], statements: int) -> None:
    traces = TraceDatabase(path)
    traces.insert(entries[:4])
    die_after(traces.connection, statements)
    traces.insert(entries[4:])
    os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("statements", [1, 5, 20, 40])
def test_a_process_killed_inside_a_batch_loses_nothing_and_doubles_nothing(traces_path, statements):
    entries = agent_entries(10)
    process = multiprocessing.get_context("fork").Process(
        target=insert_and_die, args=(traces_path, entries, statements)
    )
    process.start()
    process.join()
    assert process.exitcode == 9
    with TraceDatabase(traces_path) as traces:
        assert hourly(traces)[0]["entries"] == 4
        assert traces.insert(entries) == 6
        assert hourly(traces)[0]["entries"] == 10
        assert list(traces.verify()) == []


def insert_in_turns(path: Path, seed: int, barrier: Barrier) -> None:
    with TraceDatabase(path) as traces:
        barrier.wait()  # one that is alone when it closes the database locks it
        traces.connection.execute("pragma busy_timeout = 60000")
        for entry in agent_entries(40, seed % 2):
            traces.insert([entry])


@pytest.mark.slow
def test_two_processes_can_write_the_same_database(traces_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3, timeout=PATIENCE_S)
    processes = [
        context.Process(target=insert_in_turns, args=(traces_path, n, barrier)) for n in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with TraceDatabase(traces_path) as traces:
        assert rows(traces, "select count(*) from usage") == [(120,)]
        assert hourly(traces)[0]["entries"] == 120
        assert list(traces.verify()) == []
        assert rows(traces, "select count(*) = count(distinct text) from pieces") == [(1,)]


def test_a_cache_that_is_too_small_costs_time_only(traces_path):
    with TraceDatabase(traces_path, max_cached_ids=3) as traces:
        for entry in agent_entries(20):
            traces.insert([entry])
        assert list(traces.verify()) == []


# --- verify


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("update pieces set text = text || 'x' where id = 2", "bytes, not"),
        ("update pieces set text = replace(text, 'self', 'flew')", "differs"),
        ("update response_bodies set body = 'tampered'", "response_body"),
        ("update response_bodies set body = cast(body as blob)", "is blob, not text"),
        ("delete from pieces where id = 2", "piece 2 is missing"),
        ("delete from pieces where id = 2", "segment 1: pieces 2 are missing"),
        ("delete from segments where id = 1", "segment 1 is missing"),
        ("delete from request_bodies", "request_body is missing"),
        ("delete from response_bodies", "response_body is missing"),
        ("update usage set request_body_length = null", "although it was not kept"),
        ("update request_bodies set sha256 = x'00'", "differs"),
        ("delete from usage", "belongs to no row"),
    ],
)
def test_damage_is_found(traces, damage, message):
    traces.insert(agent_entries(3))
    assert list(traces.verify()) == []
    traces.connection.execute(damage)
    assert any(message in problem.message for problem in traces.verify())


@pytest.mark.parametrize("table", ["usage_model", "pieces", "usage_cost", "segments"])
def test_a_broken_page_is_found_and_the_check_goes_on(traces, traces_path, table):
    traces.insert([*agent_entries(3), make_entry(request_body=b"\0")])
    traces.connection.execute("delete from response_bodies where usage_id = 3")
    (root,) = rows(traces, "select rootpage from sqlite_schema where name = ?", table)[0]
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    traces.close()
    content = bytearray(traces_path.read_bytes())
    start = (root - 1) * PAGE_BYTES
    content[start : start + 20] = b"\xff" * 20
    traces_path.write_bytes(content)
    with TraceDatabase(traces_path) as again:
        problems = list(again.verify())
    assert any(problem.entry_id is None for problem in problems)
    assert len(problems) >= 2


def test_a_missing_piece_is_no_silent_loss_for_a_reader(traces):
    traces.insert(agent_entries(1))
    traces.connection.execute("delete from pieces where id = 2")
    with pytest.raises(MissingPieceError, match="piece 2"):
        traces.read_bodies(1)


def test_the_noted_hash_is_that_of_the_whole_body(traces):
    entry = replace(make_entry(), request_body=b'{"role":1}' * 9, response_body=b"\0")
    traces.insert([entry])
    assert rows(traces, "select q.sha256, r.sha256 from request_bodies q, response_bodies r") == [
        (hashlib.sha256(b'{"role":1}' * 9).digest(), hashlib.sha256(b"\0").digest())
    ]
