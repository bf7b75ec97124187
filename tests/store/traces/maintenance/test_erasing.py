"""Erased calls leave nothing of their texts in any file, and all other calls are whole."""

import functools
import gzip
import multiprocessing
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from metering.entry import UsageLogEntry
from metering.tool_results import ToolResult, UseResult
from metering.tool_uses import ToolUse
from store import database
from store.traces import steps
from store.traces.calls.cache_breaks import write_break
from store.traces.calls.judgements import Judgement
from store.traces.database import TraceDatabase
from store.traces.maintenance import erasing
from store.traces.maintenance.criteria import Criteria
from store.traces.maintenance.erasing import count_calls
from store.traces.savings import tool_sums
from store.traces.savings.tool_sums import Payer, Target, ToolSums
from store.traces.search.indexer import Indexer
from store.traces.sessions import agent_sums, unnamed_sessions
from tests.store.dying import die_after
from tests.store.stored_words import find_word
from tests.store.traces.search.conversation import assistant, find, request, response, user
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import agent_requests, make_break, make_entry

WORD = "quokkaplonkify"
SESSION = "session-wombatish"
ID = "01900000-0000-7000-8000-000000000000"
GONE = {
    "session_id": SESSION,
    "credential_hmac": "c0ffee",
    "client": "claude-cli/2.1",
    "proxy_endpoint_id": "pe_gone",
    "slug": "gone",
    "title_text": f"about the {WORD}",
    "said_text": f"so you said {WORD}",
    "tool_uses": (
        ToolUse(tool="Read", target=f"/{WORD}", result=ToolResult(7, f"no {WORD}")),
        ToolUse(tool=f"find_{WORD}", server=WORD),
    ),
}
STAYS = {"session_id": "stays", "credential_hmac": "beef", "client": "claude-clip/1"}


def no_pause(_: float) -> None:
    pass


def make_calls() -> tuple[list[UsageLogEntry], list[UsageLogEntry]]:
    """Return calls to be erased, and calls that stay. Both have a system prompt in common."""
    gone, stays = [], []
    agent = list(agent_requests(8))
    for number, body in enumerate(agent):
        said = request(user(f"{WORD} {number} " * 20), system="a common prompt " * 50)
        at = f"2026-01-02T10:{number:02d}:00.000Z"
        answer = response(f"so you said {WORD}, or {number}{WORD}")
        gone.append(make_entry(created_at=at, request_body=said, response_body=answer, **GONE))
        said = request(user(f"platypus {number}"), system="a common prompt " * 50)
        at = f"2026-01-03T10:{number:02d}:00.000Z"
        for each in (said, body):
            stays.append(
                make_entry(
                    created_at=at, request_body=each, response_body=response("fine"), **STAYS
                )
            )
    plain = f"{WORD} ".encode() * 30
    for packed in (gzip.compress(plain), zstandard.compress(plain)):
        body = b"\xff\xfe" + packed
        gone.append(make_entry(created_at="2026-01-02T11:00:00.000Z", request_body=body, **GONE))
        gone.append(make_entry(created_at="2026-01-02T11:00:00.000Z", response_body=body, **GONE))
    return gone, stays


Calls = tuple[list[UsageLogEntry], list[UsageLogEntry]]


@functools.cache
def make_filled() -> tuple[Calls, sqlite3.Connection]:
    """Return the calls of a filled database, and a copy of it."""
    copy = sqlite3.connect(":memory:")
    with tempfile.TemporaryDirectory() as folder:
        with TraceDatabase(Path(folder) / "traces.db") as traces:
            calls = _fill(traces)
        with closing(sqlite3.connect(Path(folder) / "traces.db")) as db:
            db.backup(copy)
    return calls, copy


def fill(traces: TraceDatabase) -> Calls:
    """Have the calls recorded and indexed, with what is derived from them."""
    calls, copy = make_filled()
    copy.backup(traces.connection)
    return calls


def _fill(traces: TraceDatabase) -> Calls:
    """Record the calls in turns, index them, and add what is derived from them."""
    gone, stays = make_calls()
    for pair in zip(gone, stays, strict=False):
        traces.insert(pair)
    traces.insert([*gone[len(stays) :], *stays[len(gone) :]])
    indexer = Indexer(traces.connection, time.monotonic)
    while indexer.run(10):
        pass
    db = traces.connection
    ids = dict(db.execute("select entry_id, id from usage").fetchall())
    with database.immediate(db):
        quote = make_break(previous_entry_id=gone[0].entry_id, detail=f"“{WORD}” became “x”")
        write_break(db, ids[stays[0].entry_id], quote)
        db.execute(
            "insert into savings values (?, '2026-01-02', 'large_result', ?, 1, 1, 1, 0, '[]')",
            (SESSION, WORD),
        )
        key = Payer("2026-01-02", "gone", "c0ffee"), Target("", "Read", f"/{WORD}")
        sums = {key: ToolSums(uses=1, written_cents=1.0)}
        tool_sums.write_session(db, SESSION, "2026-01-02", sums, has_costs=True)
    return gone, stays


def read_sums(traces: TraceDatabase) -> list[tuple[object, ...]]:
    return [
        row
        for table in ("usage_hourly", "usage_daily", "rate_limits_hourly")
        for row in traces.connection.execute(f"select * from {table}")  # noqa: S608
    ]


def erase(traces: TraceDatabase, criteria: Criteria) -> int:
    return steps.run(traces.erase_in_steps(ID, criteria), no_pause)


@pytest.mark.slow
@pytest.mark.parametrize(
    "criteria",
    [
        Criteria(session=SESSION),
        Criteria(credential="c0ffee"),
        Criteria(client="claude-cli"),
        Criteria(endpoint="gone", since="2026-01-02", until="2026-01-03"),
    ],
    ids=["session", "credential", "client", "endpoint and period"],
)
def test_nothing_of_erased_calls_is_left_in_any_file(traces, criteria):
    gone, stays = fill(traces)
    folder = traces.path.parent
    before = find_word(folder, WORD)
    assert any("plain" in each for each in before)
    assert any("compressed" in each for each in before)
    sums = read_sums(traces)
    assert count_calls(traces.path, criteria) == len(gone)
    assert erase(traces, criteria) == len(gone)
    assert find_word(folder, WORD) == []
    assert find_word(folder, SESSION) == []
    assert read_sums(traces) == sums
    for entry in stays:
        assert traces.read_bodies(entry.entry_id).request == entry.request_body
    assert list(traces.verify()) == []
    assert find(traces, "platypus")["pieces"]
    db = traces.connection
    assert db.execute("select session_id from sessions").fetchall() == [("stays",)]
    for table in (
        "savings",
        "tool_uses",
        "session_tools",
        "tool_targets_daily",
        "loose_segments",
        "loose_pieces",
        "search_moves",
    ):
        assert db.execute(f"select count(*) from {table}").fetchone() == (0,), table  # noqa: S608


def test_erasing_leaves_no_free_pages(traces):
    fill(traces)
    erase(traces, Criteria(session=SESSION))
    assert traces.connection.execute("pragma freelist_count").fetchone() == (0,)


def test_sums_by_day_keep_the_calls_of_an_erased_session_without_its_name(traces):
    fill(traces)
    sql = f"select day, {', '.join(f'sum({each})' for each in agent_sums.SUMS)} from agents_daily group by 1"  # noqa: S608
    before = traces.connection.execute(sql).fetchall()
    erase(traces, Criteria(session=SESSION))
    assert traces.connection.execute(sql).fetchall() == before
    names = traces.connection.execute("select distinct session_id from agents_daily").fetchall()
    assert sorted(names) == [("",), ("stays",)]


def test_what_is_left_of_a_session_gets_its_own_title_and_is_looked_at_again(traces):
    fill(traces)
    later = {"session_id": SESSION, "title_text": "platypus"}
    traces.insert([make_entry(created_at="2026-01-04T10:00:00.000Z", **later)])
    title = "select title from sessions where session_id = ?"
    assert traces.connection.execute(title, (SESSION,)).fetchone() == (f"about the {WORD}",)
    erase(traces, Criteria(until="2026-01-03"))
    assert traces.connection.execute(title, (SESSION,)).fetchone() == ("platypus",)
    due = traces.connection.execute("select session_id from savings_due").fetchall()
    assert (SESSION,) in due
    assert find_word(traces.path.parent, WORD) == []


def test_words_about_a_failed_tool_go_with_the_call_that_brought_them(traces):
    """They stand with the call before it."""
    at = "2026-01-02T10:00:00.000Z"
    call = make_entry(entry_id="use", created_at=at, tool_uses=(ToolUse(tool="Read"),))
    traces.insert([call])
    failed = UseResult(0, "Read", ToolResult(7, f"no {WORD}"))
    judged = Judgement(entry_id="next", previous_entry_id="use", results=[failed])
    traces.insert([make_entry(entry_id="next", created_at="2026-01-03T10:00:00.000Z")], [judged])
    assert find_word(traces.path.parent, WORD)
    assert erase(traces, Criteria(since="2026-01-03")) == 1
    assert find_word(traces.path.parent, WORD) == []
    uses = traces.connection.execute("select tool, problem, result_tokens from tool_uses")
    assert uses.fetchall() == [("Read", None, 7)]


def test_a_session_that_no_client_named_can_be_erased(traces):
    calls = [
        make_entry(request_body=request(user(f"{WORD} {n}")), session_id=None) for n in range(3)
    ]
    traces.insert(calls)
    with database.immediate(traces.connection):
        unnamed_sessions.join(traces.connection, 2, 1)
    assert erase(traces, Criteria(session="unnamed-1")) == 2
    assert traces.connection.execute("select id from usage").fetchall() == [(3,)]
    assert traces.connection.execute("select * from unnamed_calls").fetchall() == []


@pytest.mark.parametrize(
    "bodies",
    [
        {"request_body": request(user(f"a {WORD}"), assistant("fine"))},
        {"response_body": response(WORD)},
    ],
    ids=["request", "response"],
)
@pytest.mark.parametrize("is_erased", [True, False], ids=["erased", "without texts"])
def test_texts_that_were_read_to_be_indexed_and_are_gone_are_not_indexed(
    traces, monkeypatch, bodies, is_erased
):
    traces.insert([make_entry(session_id=SESSION, **bodies)])
    indexer = Indexer(traces.connection, time.monotonic)
    write = indexer._write

    def remove_first(*arguments, **more):
        monkeypatch.setattr(indexer, "_write", write)
        if is_erased:
            erase(traces, Criteria(session=SESSION))
        else:
            traces.prune(texts_before="9999", pause=no_pause)
        write(*arguments, **more)

    monkeypatch.setattr(indexer, "_write", remove_first)
    while indexer.run(1):
        pass
    assert find(traces, WORD) == {"pieces": [], "responses": []}
    tables = ("search_pieces", "search_responses")
    counts = [
        traces.connection.execute(f"select count(*) from {table}").fetchone()[0]  # noqa: S608
        for table in tables
    ]
    assert counts == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 4, 9, 14, 19, 30])
def test_an_erasure_that_was_interrupted_goes_on_with_what_is_left(traces, monkeypatch, after):
    gone, _ = fill(traces)
    monkeypatch.setattr(steps, "LOCK_S", 0.0)
    work = traces.erase_in_steps(ID, Criteria(session=SESSION))
    for _ in range(after):
        next(work)
    work.close()
    assert list(traces.verify()) == []
    with TraceDatabase(traces.path) as again:
        assert erase(again, Criteria(session=SESSION)) == len(gone)
        assert list(again.verify()) == []
    assert find_word(traces.path.parent, WORD) == []


def erase_and_die(path, statements):
    steps.LOCK_S = 0.0  # one call in a transaction
    with TraceDatabase(path) as traces:
        die_after(traces.connection, statements)
        erase(traces, Criteria(session=SESSION))


@pytest.mark.slow
def test_a_killed_process_leaves_nothing_that_the_next_one_does_not_erase(traces):
    gone, _ = fill(traces)
    process = multiprocessing.get_context("spawn").Process(
        target=erase_and_die, args=(traces.path, 150)
    )
    process.start()
    process.join()
    assert process.exitcode == 9
    assert 0 < erasing.read_count(traces.connection, ID) < len(gone)
    assert erase(traces, Criteria(session=SESSION)) == len(gone)
    assert find_word(traces.path.parent, WORD) == []
    assert list(traces.verify()) == []


def test_a_client_is_named_with_its_version_or_without(traces):
    for client in ("claude-cli/2.1", "claude-cli/2.2", "claude-clip/1", "Anthropic/Python 2.1"):
        traces.insert([make_entry(client=client)])
    counts = {
        client: count_calls(traces.path, Criteria(client=client))
        for client in ("claude-cli", "claude-cli/2.1", "claude", "Anthropic/Python", "%")
    }
    assert counts == {
        "claude-cli": 2,
        "claude-cli/2.1": 1,
        "claude": 0,
        "Anthropic/Python": 1,
        "%": 0,
    }


def test_all_criteria_must_hold(traces):
    fill(traces)
    assert count_calls(traces.path, Criteria(session=SESSION, client="claude-clip")) == 0
    assert count_calls(traces.path, Criteria(session=SESSION, since="2026-01-02T10:06")) == 6


def test_nothing_is_recorded_nothing_counts(tmp_path):
    assert count_calls(tmp_path / "traces.db", Criteria(session="s")) == 0


def test_the_log_is_emptied_when_nobody_reads_an_earlier_state_any_more(traces):
    fill(traces)
    with closing(database.open_readonly(traces.path, busy_timeout_s=1)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from usage").fetchone()
        work = traces.erase_in_steps(ID, Criteria(session=SESSION))
        waits = 0
        for _ in work:
            waits += 1
            if waits > 200:
                reader.rollback()
    assert waits > 200
    assert find_word(traces.path.parent, WORD) == []


@pytest.mark.parametrize(
    ("criteria", "left"),
    [
        (Criteria(session="sesn_1"), {"drm_1"}),
        (Criteria(endpoint="default", since="2026-01-02T12:00:00.000Z"), set()),
        (Criteria(endpoint="default", until="2026-01-02T12:00:00.000Z"), {"sesn_1", "drm_1"}),
        (Criteria(endpoint="default", client="curl"), {"sesn_1", "drm_1"}),
        (Criteria(credential="c0ffee"), {"sesn_1", "drm_1"}),
    ],
)
def test_managed_sessions_and_dreams_are_erased_too(traces, criteria, left):
    objects = [make_object("sesn_1"), make_object("drm_1", "dream")]
    traces.write_upstream_objects(READING, objects)
    assert erase(traces, criteria) == 0
    rows = traces.connection.execute("select object_id from upstream_objects").fetchall()
    assert {name for (name,) in rows} == left


def test_retention_removes_managed_sessions_that_nobody_has_read_for_long(traces):
    traces.write_upstream_objects(READING, [make_object("sesn_1")])
    for before, left in (("2026-01-02T12:00:00.000Z", 1), ("2026-01-02T12:00:00.001Z", 0)):
        traces.prune(before=before, pause=no_pause)
        count = traces.connection.execute("select count(*) from upstream_objects").fetchone()
        assert count == (left,)
