import itertools
import multiprocessing
import sqlite3
from contextlib import closing
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from metering.entry import UsageLogEntry
from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from store.traces import steps
from store.traces.bodies.bodies import StoredBodies
from store.traces.database import TraceDatabase
from store.traces.maintenance import removal, retention
from store.traces.maintenance.retention import Limits, Rules
from store.traces.maintenance.retention_preview import Preview, read_preview
from tests.store.traffic import agent_requests, make_entry
from tests.upstream import PATIENCE_S


def no_pause(_: float) -> None:
    pass


def session(turns: int, seed: int = 1, start: int = 0) -> list[UsageLogEntry]:
    """Entries a minute apart."""
    return [
        make_entry(
            created_at=f"2026-01-02T{(start + n) // 60:02d}:{(start + n) % 60:02d}:00.000Z",
            request_body=body,
            response_body=b"data: %d\n\n" % n * 50,
        )
        for n, body in enumerate(agent_requests(turns, seed))
    ]


def insert_all(traces: TraceDatabase, entries: list[UsageLogEntry]) -> None:
    for start in range(0, len(entries), 10):
        traces.insert(entries[start : start + 10])


def count(traces: TraceDatabase, table: str) -> int:
    (number,) = traces.connection.execute(f"select count(*) from {table}").fetchone()  # noqa: S608
    return int(number)


def unused(traces: TraceDatabase) -> tuple[int, int]:
    """Segments and pieces that nothing uses."""
    found = traces.connection.execute(
        "select (select count(*) from segments where id not in"
        " (select s.value from request_bodies q, json_each(q.segment_ids) s)),"
        " (select count(*) from pieces where id not in"
        " (select k.value from segments g, json_each(g.piece_ids) k))"
    ).fetchone()
    return found[0], found[1]


@pytest.fixture
def small_steps(monkeypatch):
    """Only one thing is done in each transaction."""
    monkeypatch.setattr(steps, "LOCK_S", 0.0)


@pytest.fixture(params=["large steps", "small steps"])
def any_steps(request):
    if request.param == "small steps":
        request.getfixturevalue("small_steps")


def test_entries_before_an_instant_go_and_the_rest_stay_whole(traces, any_steps):
    entries = session(60)
    insert_all(traces, entries)
    pruned = traces.prune(before="2026-01-02T00:40", pause=no_pause)
    assert pruned.entries == 40
    assert pruned.bytes_after < pruned.bytes_before
    left = [row[0] for row in traces.connection.execute("select entry_id from usage_log")]
    assert left == [entry.entry_id for entry in entries[40:]]
    assert list(traces.verify()) == []
    assert unused(traces) == (0, 0)
    assert count(traces, "loose_segments") == count(traces, "loose_pieces") == 0


def test_age_is_that_of_the_request_not_of_the_row(traces):
    old, new = session(2)
    traces.insert([new, old])
    traces.prune(before=new.created_at, pause=no_pause)
    assert traces.read_bodies(old.entry_id) is None
    assert traces.read_bodies(new.entry_id).request == new.request_body


def test_everything_can_go(traces, any_steps):
    insert_all(traces, session(20))
    pruned = traces.prune(before="9999", pause=no_pause)
    assert pruned.entries == 20
    for table in ("usage", "usage_cost", "request_bodies", "response_bodies", "segments", "pieces"):
        assert count(traces, table) == 0


def test_the_oldest_go_until_the_rest_fits(traces, any_steps):
    empty = removal.used_bytes(traces.connection)
    for seed in range(6):
        insert_all(traces, session(15, seed, start=seed * 15))
    filled = removal.used_bytes(traces.connection) - empty
    traces.prune(max_bytes=empty + filled // 2, pause=no_pause)
    left_bytes = removal.used_bytes(traces.connection) - empty
    assert filled * 0.25 < left_bytes <= filled // 2
    left = [row[0] for row in traces.connection.execute("select id from usage order by id")]
    assert left == list(range(left[0], 91))
    assert list(traces.verify()) == []
    assert unused(traces) == (0, 0)


def test_what_fits_is_left_alone(traces):
    insert_all(traces, session(5))
    pruned = traces.prune(before="2026-01-01", max_bytes=10**9, pause=no_pause)
    assert pruned.entries == 0
    assert count(traces, "usage") == 5


def test_a_size_that_cannot_be_reached_empties_the_database_and_ends(traces):
    insert_all(traces, session(10))
    assert traces.prune(max_bytes=1, pause=no_pause).entries == 10


def test_bodies_stored_whole_go_too(traces):
    traces.insert([make_entry(request_body=b"\xff" * 500_000, response_body=b"\0" * 500_000)])
    pruned = traces.prune(before="9999", pause=no_pause)
    assert pruned.bytes_before - pruned.bytes_after >= 960_000  # whole pages


def test_the_file_shrinks(traces, traces_path):
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    empty = traces_path.stat().st_size
    insert_all(traces, session(60))
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    filled = traces_path.stat().st_size - empty
    traces.prune(before="9999", pause=no_pause)
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    assert traces_path.stat().st_size - empty < filled / 2
    assert traces.connection.execute("pragma freelist_count").fetchone() == (0,)


def test_the_patience_of_the_connection_is_what_it_was(traces):
    traces.prune(before="9999", pause=no_pause)
    assert traces.connection.execute("pragma busy_timeout").fetchone() == (100,)


def test_the_lock_is_free_in_each_pause(traces, traces_path, small_steps):
    insert_all(traces, session(20))
    pauses = []
    with closing(sqlite3.connect(traces_path, timeout=0, isolation_level=None)) as other:

        def take_lock(seconds: float) -> None:
            pauses.append(seconds)
            other.execute("begin immediate")
            other.execute("rollback")

        traces.prune(before="2026-01-02T00:10", pause=take_lock)
    assert len(pauses) > 20
    assert set(pauses) == {steps.PAUSE_S}


def test_what_the_same_connection_recorded_before_is_not_remembered_after(traces):
    """PRAGMA data_version does not move for commits of one's own."""
    entries = session(10)
    insert_all(traces, entries)
    traces.prune(before="9999", pause=no_pause)
    again = [make_entry(request_body=entry.request_body) for entry in entries]
    insert_all(traces, again)
    assert list(traces.verify()) == []


def test_what_another_connection_deleted_is_not_remembered(traces, traces_path):
    entries = session(10)
    insert_all(traces, entries)
    with TraceDatabase(traces_path) as other:
        other.prune(before="9999", pause=no_pause)
    again = [make_entry(request_body=entry.request_body) for entry in entries]
    insert_all(traces, again)
    assert list(traces.verify()) == []


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_pieces_used_again_between_two_steps_are_kept(traces, traces_path, small_steps, every):
    """In the pauses a recorder stores again the requests whose pieces are being removed."""
    entries = session(12)
    again = [
        make_entry(created_at="2026-02-01T00:00:00.000Z", request_body=entry.request_body)
        for entry in entries
    ]
    waiting = list(again)
    pauses = itertools.count()
    with TraceDatabase(traces_path) as recorder:
        insert_all(recorder, entries)

        def record(_: float) -> None:
            if next(pauses) % every == 0 and waiting:
                recorder.insert([waiting.pop()])

        traces.prune(before="2026-01-03", pause=record)
        insert_all(recorder, waiting)
    assert count(traces, "usage") == 12
    for entry in again:
        assert traces.read_bodies(entry.entry_id).request == entry.request_body
    assert list(traces.verify()) == []
    traces.prune(before="9999", pause=no_pause)
    assert unused(traces) == (0, 0)
    assert count(traces, "pieces") == 0


class Killed(Exception):
    pass


@pytest.mark.parametrize("after", [1, 5, 13, 20, 40])
def test_a_run_that_was_killed_is_finished_by_the_next(traces, small_steps, after):
    insert_all(traces, session(20))
    pauses = itertools.count(1)

    def die(_: float) -> None:
        if next(pauses) == after:
            raise Killed

    with pytest.raises(Killed):
        traces.prune(before="2026-01-02T00:10", pause=die)
    assert list(traces.verify()) == []
    traces.prune(before="2026-01-02T00:10", pause=no_pause)
    assert count(traces, "usage") == 10
    assert unused(traces) == (0, 0)
    assert list(traces.verify()) == []


ROUNDS = 8


def record_sessions(path: Path, has_begun: Event, is_pruning: Event) -> None:
    """The same sessions over and over, so that what is being pruned is being used again."""
    with TraceDatabase(path) as traces:
        traces.connection.execute("pragma busy_timeout = 60000")
        for round_ in range(ROUNDS):
            for seed in range(2):
                insert_all(traces, session(20, seed, start=round_ * 60))
            has_begun.set()
            is_pruning.wait(PATIENCE_S)


@pytest.mark.slow
def test_pruning_while_another_process_records_leaves_every_entry_whole(traces, traces_path):
    # A connection of SQLite must not be carried into another process, and a fork would carry ours.
    context = multiprocessing.get_context("spawn")
    has_begun, is_pruning = context.Event(), context.Event()
    recorder = context.Process(target=record_sessions, args=(traces_path, has_begun, is_pruning))
    recorder.start()
    assert has_begun.wait(PATIENCE_S)
    removed = 0
    while recorder.is_alive():
        removed += traces.prune(max_bytes=300_000, pause=lambda _: is_pruning.set()).entries
    recorder.join()
    assert recorder.exitcode == 0
    assert removed > 0
    assert count(traces, "usage") + removed == ROUNDS * 2 * 20
    assert list(traces.verify()) == []
    traces.prune(before="2026-01-02T11:00", pause=no_pause)
    assert unused(traces) == (0, 0)
    assert list(traces.verify()) == []


def run(traces: TraceDatabase, given: Rules) -> retention.Pruned:
    return steps.run(traces.prune_in_steps(given), no_pause)


def test_texts_go_before_their_calls(traces, any_steps):
    failed = ToolUse(tool="Read", target="/a", result=ToolResult(7, "not found"))
    entries = [
        replace(each, title_text="said", said_text="Aye.", tool_uses=(failed,))
        for each in session(20)
    ]
    insert_all(traces, entries)
    kept = "select entry_id, cost_cents, input_tokens from usage order by id"
    calls = traces.connection.execute(kept).fetchall()
    pruned = traces.prune(texts_before="2026-01-02T00:12", pause=no_pause)
    assert (pruned.entries, pruned.texts) == (0, 12)
    assert traces.connection.execute(kept).fetchall() == calls
    for entry in entries[:12]:
        assert traces.read_bodies(entry.entry_id) == StoredBodies(request=None, response=None)
    for entry in entries[12:]:
        assert traces.read_bodies(entry.entry_id).request == entry.request_body
    assert list(traces.verify()) == []
    assert unused(traces) == (0, 0)
    rows = traces.connection.execute("select body_notes, title_text, said_text from usage")
    note = "request not kept: removed by retention; response not kept: removed by retention"
    assert rows.fetchall() == [(note, None, None)] * 12 + [(None, "said", "Aye.")] * 8
    uses = traces.connection.execute("select tool, target, problem, result_tokens from tool_uses")
    assert uses.fetchall() == [("Read", None, None, 7)] * 12 + [("Read", "/a", "not found", 7)] * 8


def test_a_session_has_the_title_of_a_call_whose_text_is_left(traces):
    titles = ["first", "second", None]
    insert_all(
        traces,
        [
            replace(each, title_text=title, session_id="s")
            for title, each in zip(titles, session(3), strict=True)
        ],
    )
    found = []
    for minute in range(4):
        traces.prune(texts_before=f"2026-01-02T00:{minute:02d}", pause=no_pause)
        found.append(traces.connection.execute("select title from sessions").fetchone()[0])
    assert found == ["first", "second", None, None]


def test_each_endpoint_has_limits_of_its_own(traces):
    entries = [
        replace(each, proxy_endpoint_id=f"pe_{number % 3}")
        for number, each in enumerate(session(12))
    ]
    insert_all(traces, entries)
    given = Rules(
        limits=Limits(entries_before="2026-01-02T00:06"),
        by_endpoint={"pe_1": Limits(texts_before="9999"), "pe_2": Limits()},
    )
    run(traces, given)
    left = traces.connection.execute(
        "select proxy_endpoint_id, count(*), count(request_body_length) from usage group by 1"
    ).fetchall()
    assert left == [("pe_0", 2, 2), ("pe_1", 4, 0), ("pe_2", 4, 4)]
    assert list(traces.verify()) == []


def test_the_text_of_a_call_that_is_stored_late_goes_with_the_next_run(traces):
    early, late, latest = session(3)
    traces.insert([late, latest])
    assert traces.prune(texts_before=latest.created_at, pause=no_pause).texts == 1
    traces.insert([early])
    assert traces.prune(texts_before=latest.created_at, pause=no_pause).texts == 1
    assert traces.prune(texts_before=latest.created_at, pause=no_pause).texts == 0
    assert traces.read_bodies(latest.entry_id).request == latest.request_body


def test_the_text_of_a_call_that_is_stored_during_a_run_goes_too(traces, small_steps):
    early, *others = session(8)
    traces.insert(others)
    work = traces.prune_in_steps(Rules(limits=Limits(texts_before="9999")))
    for _ in range(4):
        next(work)
    traces.insert([early])
    steps.run(work, no_pause)
    assert traces.connection.execute("select count(request_body_length) from usage").fetchone() == (
        0,
    )
    assert list(traces.verify()) == []


def test_texts_are_removed_on_from_where_a_killed_run_was(traces, small_steps):
    insert_all(traces, session(10))
    for after in (1, 3, 6, 12):
        work = traces.prune_in_steps(Rules(limits=Limits(texts_before="9999")))
        for _ in range(after):
            next(work, None)
        work.close()
        assert list(traces.verify()) == []
    run(traces, Rules(limits=Limits(texts_before="9999")))
    assert count(traces, "request_bodies") == count(traces, "pieces") == 0
    assert unused(traces) == (0, 0)


def test_calls_of_one_instant_all_lose_their_texts(traces, small_steps, monkeypatch):
    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    insert_all(
        traces, [replace(each, created_at="2026-01-02T00:00:00.000Z") for each in session(7)]
    )
    assert traces.prune(texts_before="2026-01-03", pause=no_pause).texts == 7


@pytest.mark.parametrize(
    "given",
    [
        Rules(limits=Limits(entries_before="2026-01-02T00:07")),
        Rules(limits=Limits(texts_before="2026-01-02T00:07")),
        Rules(limits=Limits(entries_before="2026-01-02T00:03", texts_before="2026-01-02T00:07")),
        Rules(by_endpoint={"pe_1": Limits(texts_before="9999")}),
        Rules(by_endpoint={"other": Limits(texts_before="9999")}),
    ],
)
def test_a_preview_says_what_a_run_removes(traces, traces_path, given):
    insert_all(traces, session(12))
    traces.prune(texts_before="2026-01-02T00:02", pause=no_pause)
    preview = read_preview(traces_path, given)
    assert preview.size_bytes == removal.used_bytes(traces.connection)
    pruned = run(traces, given)
    assert (preview.entries, preview.texts) == (pruned.entries, pruned.texts)
    assert read_preview(traces_path, given).texts == 0
    assert (preview.freed_bytes > 0) == (pruned.entries + pruned.texts > 0)


def test_a_preview_of_a_size_says_what_is_above_it(traces, traces_path):
    for seed in range(4):
        insert_all(traces, session(15, seed, start=seed * 15))
    size = removal.used_bytes(traces.connection)
    preview = read_preview(traces_path, Rules(max_bytes=size // 2))
    assert preview.freed_bytes == size - size // 2
    assert 20 <= preview.entries <= 40
    assert read_preview(traces_path, Rules(max_bytes=size)) == Preview(
        entries=0, texts=0, freed_bytes=0, size_bytes=size
    )


def test_nothing_recorded_nothing_to_remove(tmp_path):
    assert read_preview(tmp_path / "traces.db", Rules(max_bytes=1)).entries == 0
