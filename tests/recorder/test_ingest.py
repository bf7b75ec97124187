import errno
import gc
import gzip
import json
import os
import signal
import socket
import sqlite3
from contextlib import closing

import pytest

from metering.output_estimate import CHARACTERS_PER_TOKEN
from recorder.background import BackgroundWork
from recorder.disk import DiskRoom
from recorder.entry_store import (
    BATCH_BYTES,
    BATCH_FILES,
    BATCH_S,
    LARGE_FILE_BYTES,
    MEMORY_TRIES,
)
from recorder.ingest import TIDY_S
from recorder.output_sizes import EVERY, FIRST_CALLS
from recorder.record import make_recorded
from recorder.recorded_calls import RecordedCall
from store import before_release
from store.migration_status import MigrationStatus, read_migration_status
from store.spool.format import REJECTIONS, Ending, Rejection, ResponseHead
from store.spool.reader import Waiting
from store.spool.writer import SpoolRun
from store.traces import schema
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.recorder.ingesters import make_ingester
from tests.store.spool.heads import make_head
from tests.store.upgrades.dumps import find_dumps, load
from wire import conversation_memory
from wire.conversation_memory import shared_length

ANSWER = (
    b'{"type":"message","model":"claude-haiku-4-5","stop_reason":"end_turn",'
    b'"usage":{"input_tokens":1000,"output_tokens":200}}'
)
REQUEST = b'{"model":"haiku"}'


@pytest.fixture
def entries():
    return []


@pytest.fixture
def ingester(tmp_path, clock, entries):
    ingester = make_ingester(tmp_path, clock_s=clock, on_entries=entries.extend)
    yield ingester
    ingester.close()


def spool_call(run, entry_id, organization_id="a", *, finish=True, body=REQUEST, **changes):
    values = {"organization_id": organization_id, "request_bytes": len(body)}
    head = make_head(entry_id, **values | changes)
    file = run.create(head, body)
    file.write_response_head(ResponseHead(status_code=200, content_type="application/json"), 12.0)
    file.write_chunk(ANSWER, 13.0)
    if finish:
        file.finish(Ending(outcome="complete", response_bytes=len(ANSWER)), 13.0)
    else:
        file.close()
    return file


def spool_stream(run, entry_id, words, *, is_cut, organization_id="a"):
    """Spool a stream of so many words, each four characters and a token."""
    events = [
        {"type": "message_start", "message": {"model": "haiku", "usage": {"input_tokens": 10}}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "word" * words}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": words * 2}},
        {"type": "message_stop"},
    ]
    head = make_head(entry_id, organization_id=organization_id, request_bytes=len(REQUEST))
    file = run.create(head, REQUEST)
    file.write_response_head(ResponseHead(status_code=200, content_type="text/event-stream"), 12.0)
    for each in events[:2] if is_cut else events:
        file.write_chunk(b"data: %s\n\n" % json.dumps(each).encode(), 13.0)
    file.finish(Ending(outcome="client_disconnected" if is_cut else "complete"), 13.0)


def test_batches_leave_no_objects_in_cycles(ingester, run):
    spool_call(run, "first")
    ingester.run_round()
    gc.collect(0)  # what is older is not looked at: nothing gets there while collecting is off
    gc.disable()
    try:
        for number in range(8):
            spool_call(run, f"call-{number}", body=b'{"messages":[{"role":"user","content":"hi"}]}')
            spool_stream(run, f"stream-{number}", 9, is_cut=number % 2 == 1)
        ingester.run_round()
        found = gc.collect(0)
    finally:
        gc.enable()
    assert found == 0


def read_output(tmp_path, entry_id, organization_id="a"):
    with closing(sqlite3.connect(trace_path(tmp_path, organization_id))) as db:
        return db.execute(
            "select usage_source, output_tokens from usage where entry_id = ?", (entry_id,)
        ).fetchone()


def read_ids(tmp_path, organization_id="a"):
    path = trace_path(tmp_path, organization_id)
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("select entry_id from usage_log order by id")]


def spooled(tmp_path):
    return sorted(p.name for p in (tmp_path / "spool").rglob("*~*") if "unreadable" not in p.parts)


def test_a_spooled_call_becomes_a_row_and_its_file_goes(ingester, run, tmp_path, entries):
    spool_call(run, "1")
    assert ingester.run_round().handled == 1
    assert read_ids(tmp_path) == ["1"]
    assert spooled(tmp_path) == []
    (entry,) = entries
    assert (entry.model, entry.tokens.input_tokens, entry.tokens.output_tokens) == (
        "claude-haiku-4-5",
        1000,
        200,
    )
    assert entry.cost_cents is not None


def test_a_crash_between_commit_and_unlink_doubles_nothing(ingester, run, tmp_path):
    file = spool_call(run, "1")
    data = file.path.with_suffix(".done").read_bytes()
    ingester.run_round()
    file.path.with_suffix(".done").write_bytes(data)
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]
    assert spooled(tmp_path) == []


def test_what_a_dead_proxy_left_becomes_an_entry(ingester, tmp_path, entries, clock):
    run = SpoolRun(tmp_path / "spool")
    spool_call(run, "1", finish=False)
    (run.path / "2~a.open").write_bytes(b"")
    ingester.run_round()
    assert read_ids(tmp_path) == []
    run.close()
    clock.now_s += TIDY_S
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]
    assert entries[0].outcome == "proxy_restarted"
    assert entries[0].response_body == ANSWER
    assert spooled(tmp_path) == []
    assert not run.path.exists()


def test_a_backlog_is_taken_in_batches_until_it_is_gone(ingester, run, tmp_path):
    for number in range(BATCH_FILES + 20):
        spool_call(run, f"{number:04}")
    first = ingester.run_round()
    assert (first.handled, first.waiting) == (BATCH_FILES, 20)
    assert ingester.run_round().waiting == 0
    assert len(read_ids(tmp_path)) == BATCH_FILES + 20


@pytest.mark.parametrize(
    "data", [b"X garbage, and enough of it to be a frame", b"H" + bytes(8) + b"\0\0\0\1{"]
)
def test_an_unreadable_file_is_kept_aside_and_blocks_nobody(ingester, run, tmp_path, caplog, data):
    (run.path / "0~a.done").write_bytes(data)
    spool_call(run, "1")
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]
    assert [p.read_bytes() for p in (tmp_path / "spool" / "unreadable").iterdir()] == [data]
    assert "cannot be recorded" in caplog.text


@pytest.fixture
def is_unblocked():
    """End a test that would wait for ever."""

    def give_up(*_):
        pytest.fail("it waits for what never comes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("is_unblocked")
@pytest.mark.parametrize("owner", ["a", REJECTIONS])
@pytest.mark.parametrize("kind", ["pipe", "link", "link to a device", "folder", "socket"])
def test_what_is_no_regular_file_is_kept_aside_and_not_read(
    ingester, run, tmp_path, kind, owner, monkeypatch
):
    spool_call(run, "1")
    spool_call(run, "outside").path.with_suffix(".done").rename(tmp_path / "outside~a.done")
    odd = run.path / f"0~{owner}.done"
    match kind:
        case "pipe":
            os.mkfifo(odd)
        case "link":
            odd.symlink_to(tmp_path / "outside~a.done")
        case "link to a device":
            odd.symlink_to("/dev/null")
        case "folder":
            odd.mkdir()
        case "socket":
            monkeypatch.chdir(run.path)  # its address may not be long
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(odd.name)
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]
    assert spooled(tmp_path) == []
    assert os.listdir(tmp_path / "spool" / "unreadable") == [odd.name]  # noqa: PTH208
    assert (tmp_path / "outside~a.done").exists()


def test_a_link_to_a_folder_is_no_run(ingester, run, tmp_path):
    (tmp_path / "outside").mkdir()
    spool_call(run, "1").path.with_suffix(".done").rename(tmp_path / "outside" / "1~a.done")
    (tmp_path / "spool" / "link").symlink_to(tmp_path / "outside")
    assert ingester.run_round().waiting == 0
    assert read_ids(tmp_path) == []
    assert (tmp_path / "outside" / "1~a.done").exists()


def test_a_file_under_the_wrong_organisation_is_kept_aside(ingester, run, tmp_path):
    file = spool_call(run, "1", "a")
    path = file.path.with_suffix(".done")
    path.rename(path.with_name("1~b.done"))
    ingester.run_round()
    assert read_ids(tmp_path, "a") == read_ids(tmp_path, "b") == []
    assert len(list((tmp_path / "spool" / "unreadable").iterdir())) == 1


def test_an_organisation_that_is_no_plain_name_reaches_no_other_folder(ingester, run, tmp_path):
    spool_call(run, "1", "..")
    spool_call(run, "2", "a")
    ingester.run_round()
    assert read_ids(tmp_path, "a") == ["2"]
    assert not (tmp_path / "traces.db").exists()


def test_an_entry_that_cannot_be_stored_is_kept_aside_and_its_batch_is_stored(
    ingester, run, tmp_path, monkeypatch
):
    for entry_id in ("1", "2", "3"):
        spool_call(run, entry_id)
    insert = TraceDatabase.insert

    def refuse_2(self, entries, judged):
        if any(entry.entry_id == "2" for entry in entries):
            raise sqlite3.IntegrityError("a row that does not fit")
        return insert(self, entries, judged)

    monkeypatch.setattr(TraceDatabase, "insert", refuse_2)
    ingester.run_round()
    assert read_ids(tmp_path) == ["1", "3"]
    assert [p.name for p in (tmp_path / "spool" / "unreadable").iterdir()] == ["2~a.done"]


def test_a_locked_database_holds_up_nobody_else(ingester, run, tmp_path, clock, caplog):
    spool_call(run, "1", "a")
    ingester.run_round()
    with closing(sqlite3.connect(trace_path(tmp_path, "a"), isolation_level=None)) as blocker:
        blocker.execute("begin immediate")
        spool_call(run, "2", "a")
        spool_call(run, "3", "b")
        assert ingester.run_round().waiting == 1
        assert read_ids(tmp_path, "b") == ["3"]
        assert ingester.stuck_organizations == 1
        for _ in range(3):
            clock.now_s += 100
            ingester.run_round()
        assert caplog.text.count("cannot be written") == 1
        blocker.execute("rollback")
    clock.now_s += 100
    ingester.run_round()
    assert read_ids(tmp_path, "a") == ["1", "2"]
    assert ingester.stuck_organizations == 0
    assert "can be written again" in caplog.text


def test_a_corrupt_database_holds_up_nobody_else_and_loses_nothing(ingester, run, tmp_path, clock):
    path = trace_path(tmp_path, "a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 1000)
    spool_call(run, "1", "a")
    spool_call(run, "2", "b")
    ingester.run_round()
    assert read_ids(tmp_path, "b") == ["2"]
    assert spooled(tmp_path) == ["1~a.done"]
    path.unlink()
    clock.now_s += 100
    ingester.run_round()
    assert read_ids(tmp_path, "a") == ["1"]


def test_a_paused_organisation_is_tried_less_and_less_often(ingester, run, tmp_path, clock):
    path = trace_path(tmp_path, "a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 1000)
    spool_call(run, "1", "a")
    tries = 0
    for _ in range(600):
        before = ingester._pauses._pauses.get("a")
        ingester.run_round()
        tries += ingester._pauses._pauses["a"] is not before
        clock.now_s += 0.1
    assert 5 < tries < 12


def test_a_database_that_was_removed_is_made_again(ingester, run, tmp_path):
    spool_call(run, "1")
    ingester.run_round()
    for path in trace_path(tmp_path, "a").parent.iterdir():
        path.unlink()
    spool_call(run, "2")
    ingester.run_round()
    assert read_ids(tmp_path) == ["2"]


def test_databases_are_taken_over_at_the_start_and_one_that_cannot_be_blocks_none(
    ingester, tmp_path, caplog
):
    (dump,) = (each for each in find_dumps("traces") if each.stem.endswith(before_release.COMMIT))
    for organization_id in ("a", "c", "d"):
        load(dump, trace_path(tmp_path, organization_id))
    broken, earlier = trace_path(tmp_path, "b"), trace_path(tmp_path, "c")
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no database" * 1000)
    with closing(sqlite3.connect(earlier)) as db, db:
        db.execute("delete from _sqlite_migrations where id = 20")
    ingester.update_databases()
    states = [
        read_migration_status(trace_path(tmp_path, organization_id), schema.migrations)
        for organization_id in ("a", "d")
    ]
    assert states == [MigrationStatus(0, 0)] * 2
    assert f"{broken} cannot be updated now" in caplog.text
    assert f"{earlier} is of an earlier version" in caplog.text


# --- bodies that are more than they seem -------------------------------------------------------------


@pytest.mark.slow
def test_a_batch_is_bounded_by_what_its_bodies_decode_to(ingester, run, tmp_path):
    text = b'{"model":"haiku","text":"' + b"x" * 2_000_000 + b'"}'
    wire = gzip.compress(gzip.compress(text))
    assert len(wire) < 1_000
    for number in range(20):
        spool_call(run, f"{number:02}", body=wire, content_encoding="gzip, gzip")
    first = ingester.run_round()
    assert 1 <= first.handled <= BATCH_BYTES // len(text) + 1
    assert first.has_more
    while ingester.run_round().has_more:
        pass
    assert len(read_ids(tmp_path)) == 20


def test_each_request_of_a_full_batch_is_compared_once(ingester, run, monkeypatch):
    compared = list[bytes]()

    def compare(first, second):
        compared.append(second[:100])
        return shared_length(first, second)

    monkeypatch.setattr(conversation_memory, "shared_length", compare)
    for turn in range(2):
        for number in range(30):
            message = b'{"role":"user","content":"%d%b"}' % (number, b" x" * 160_000)
            more = b',{"role":"user","content":"more"}' * turn
            body = b'{"model":"haiku","messages":[%b%b]}' % (message, more)
            spool_call(run, f"{turn}-{number:02}", body=body)
        assert BATCH_BYTES // 325_000 <= ingester.run_round().handled < 30
        while ingester.run_round().has_more:
            pass
    assert len(compared) == 30


def test_a_batch_is_bounded_by_the_time_that_its_bodies_take(ingester, run, clock):
    clock.step_s = BATCH_S / 4
    for number in range(20):
        spool_call(run, f"{number:02}")
    assert 1 <= ingester.run_round().handled <= 8


def test_the_bodies_of_a_batch_are_not_kept_until_the_next_one(ingester, run):
    spool_call(run, "not-kept")
    ingester.run_round()
    calls = [each for each in gc.get_objects() if type(each) is RecordedCall]
    assert "not-kept" not in {call.entry.entry_id for call in calls}


def test_the_backlog_of_one_organisation_delays_another_by_one_batch(ingester, run, tmp_path):
    for number in range(40):
        spool_call(run, f"{number:02}", "a", body=b"%d" % number * 500_000)
    spool_call(run, "99", "b")
    ingester.run_round()
    assert read_ids(tmp_path, "b") == ["99"]
    assert 1 <= len(read_ids(tmp_path, "a")) < 20


def test_there_is_a_sign_of_life_after_each_file(ingester, run):
    signs: list[int] = []

    def note():
        signs.append(len(spooled(run.path.parents[1])))

    ingester._between = ingester._entries._between = note
    for number in range(10):
        spool_call(run, f"{number}")
    ingester.run_round()
    assert len(signs) > 10


def fail_on(monkeypatch, broken):
    def fail(exchange, *others):
        if broken(exchange):
            raise MemoryError
        return make_recorded(exchange, *others)

    monkeypatch.setattr("recorder.entry_store.make_recorded", fail)


def test_a_file_that_does_not_fit_into_memory_alone_is_set_aside_and_the_others_are_stored(
    ingester, run, tmp_path, monkeypatch, clock
):
    for number in range(5):
        size = LARGE_FILE_BYTES if number == 2 else 100
        spool_call(run, f"{number}", body=b"x" * size)
    fail_on(monkeypatch, lambda exchange: exchange.head.entry_id == "2")
    for _ in range(MEMORY_TRIES):
        ingester.run_round()
        clock.now_s += 100
    ingester.run_round()
    assert read_ids(tmp_path) == ["0", "1", "3", "4"]
    assert [p.name for p in (tmp_path / "spool" / "unreadable").iterdir()] == ["2~a.done"]
    assert spooled(tmp_path) == []


def test_a_large_file_waits_while_memory_is_short_for_all(
    ingester, run, tmp_path, monkeypatch, clock
):
    for number in range(2):
        spool_call(run, f"{number}", body=b"x" * LARGE_FILE_BYTES)
    with monkeypatch.context() as broken:
        fail_on(broken, lambda _: True)
        for _ in range(MEMORY_TRIES - 1):
            ingester.run_round()
            clock.now_s += 100
    while ingester.run_round().has_more:
        pass
    assert read_ids(tmp_path) == ["0", "1"]
    assert not (tmp_path / "spool" / "unreadable").exists()


def test_a_batch_that_fits_into_memory_one_by_one_is_stored(ingester, run, tmp_path, monkeypatch):
    insert = TraceDatabase.insert

    def fail(self, entries, judged):
        if len(entries) > 1:
            raise MemoryError
        return insert(self, entries, judged)

    monkeypatch.setattr(TraceDatabase, "insert", fail)
    for number in range(3):
        spool_call(run, f"{number}")
    ingester.run_round()
    assert read_ids(tmp_path) == ["0", "1", "2"]
    assert not (tmp_path / "spool" / "unreadable").exists()


def test_a_small_file_waits_when_there_is_no_memory_for_anything(
    ingester, run, tmp_path, monkeypatch, clock
):
    spool_call(run, "1")
    with monkeypatch.context() as broken:
        fail_on(broken, lambda _: True)
        ingester.run_round()
    assert spooled(tmp_path) == ["1~a.done"]
    clock.now_s += 100
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]


def test_where_the_disk_has_no_room_for_bodies_usage_is_kept_and_says_so(
    ingester, run, tmp_path, entries, clock
):
    ingester._entries._disk = DiskRoom(tmp_path, 10**18)
    spool_call(run, "1", body=b"x" * 30_000_000)
    ingester.run_round()
    (entry,) = entries
    assert entry.body_notes == "request not kept: disk reserve"
    assert (entry.tokens.input_tokens, entry.request_bytes) == (1000, 30_000_000)
    with TraceDatabase(trace_path(tmp_path, "a")) as database:
        bodies = database.read_bodies("1")
        assert bodies is not None
        assert (bodies.request, bodies.response) == (None, ANSWER), "what is tiny is kept"
        assert list(database.verify()) == []


def test_on_a_full_disk_usage_is_stored_without_bodies(
    ingester, run, tmp_path, monkeypatch, entries
):
    """SQLite's own error, by a limit on the size of the database."""
    ingester._entries._disk.refill()
    for number in range(3):
        spool_call(run, f"{number}", body=b"%d" % number * 1_000_000)
    insert = TraceDatabase.insert

    def insert_where_little_fits(self, batch, judged):
        (pages,) = self.connection.execute("pragma page_count").fetchone()
        self.connection.execute(f"pragma max_page_count = {pages + 20}")
        return insert(self, batch, judged)

    monkeypatch.setattr(TraceDatabase, "insert", insert_where_little_fits)
    ingester.run_round()
    assert read_ids(tmp_path) == ["0", "1", "2"]
    assert {entry.body_notes for entry in entries} == {
        "request not kept: disk full; response not kept: disk full"
    }
    assert [entry.tokens.input_tokens for entry in entries] == [1000] * 3
    with TraceDatabase(trace_path(tmp_path, "a")) as database:
        assert list(database.verify()) == []


def test_when_nothing_of_the_reserve_is_left_calls_wait(
    ingester, run, tmp_path, monkeypatch, clock
):
    spool_call(run, "1")
    with monkeypatch.context() as broken:

        def refuse(_self, _batch, _judged):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        broken.setattr(TraceDatabase, "insert", refuse)
        ingester.run_round()
    assert spooled(tmp_path) == ["1~a.done"]
    assert ingester.stuck_organizations == 1
    clock.now_s += 100
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]


def test_rejections_are_counted_once_even_if_their_file_comes_again(ingester, run, tmp_path):
    run.write_rejections(
        [
            Rejection(
                organization_id="a", proxy_endpoint_id="endpoint", slug="default",
                bucket="messages", hour="2026-06-01T10", count=7,
            )
        ]
    )  # fmt: skip
    (path,) = run.path.glob("*~rejections.done")
    data = path.read_bytes()
    ingester.run_round()
    path.write_bytes(data)
    ingester.run_round()
    with closing(sqlite3.connect(trace_path(tmp_path, "a"))) as db:
        rows = db.execute("select hour, slug, bucket, count from rejections_hourly").fetchall()
    assert rows == [("2026-06-01T10", "default", "messages", 7)]
    assert spooled(tmp_path) == []


def test_few_databases_stay_open_however_many_organisations_there_are(ingester, run, monkeypatch):
    monkeypatch.setattr("recorder.open_databases.MAX_OPEN_DATABASES", 3)
    for number in range(8):
        spool_call(run, f"{number}", f"org-{number}")
    ingester.run_round()
    assert list(ingester._databases._databases) == ["org-5", "org-6", "org-7"]


def write_rejection(run, *organization_ids):
    run.write_rejections(
        [
            Rejection(
                organization_id=organization_id, proxy_endpoint_id="endpoint", slug="default",
                bucket="messages", hour="2026-06-01T10", count=1,
            )
            for organization_id in organization_ids
        ]
    )  # fmt: skip


def test_rejections_of_one_organisation_do_not_wait_for_anothers_database(ingester, run, tmp_path):
    path = trace_path(tmp_path, "a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 1000)
    write_rejection(run, "a", "b")
    write_rejection(run, "b")
    ingester.run_round()
    with closing(sqlite3.connect(trace_path(tmp_path, "b"))) as db:
        assert db.execute("select sum(count) from rejections_hourly").fetchone() == (2,)
    assert len(spooled(tmp_path)) == 1, "what the broken one has not got yet stays"


def test_a_lack_of_descriptors_is_not_taken_for_a_bad_file(
    ingester, run, tmp_path, clock, monkeypatch
):
    spool_call(run, "1")

    def refuse(_path):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr("store.spool.reader.read_file", refuse)
        ingester.run_round()
    assert not (tmp_path / "spool" / "unreadable").exists()
    clock.now_s += 100
    ingester.run_round()
    assert read_ids(tmp_path) == ["1"]


def test_a_file_that_was_taken_away_is_nobodys_trouble(ingester, run, tmp_path, monkeypatch):
    spool_call(run, "1").path.with_suffix(".done").unlink()
    spool_call(run, "2")
    listed = [Waiting(str(run.path / f"{n}~a.done"), n, "a") for n in ("1", "2")]
    monkeypatch.setattr("recorder.ingest.reader.find_waiting", lambda _root: iter(listed))
    ingester.run_round()
    assert read_ids(tmp_path) == ["2"]
    assert not (tmp_path / "spool" / "unreadable").exists()


def test_reading_and_cutting_share_one_memory_of_a_conversation(run, ingester, entries):
    message = b'{"role":"user","content":"%b"}' % (b"x" * 1000)
    bodies = [
        b'{"model":"m","messages":[%b]}' % b",".join([message] * (30 + turn)) for turn in range(3)
    ]
    for turn, body in enumerate(bodies):
        spool_call(run, f"turn {turn}", body=body, session_id="session")
    ingester.run_round()
    assert [entry.message_count for entry in entries] == [30, 31, 32]
    [both] = ingester._memory._conversations.values()
    assert len(both) == 2  # reading and cutting
    assert len(bodies[-1]) < ingester._memory.total_bytes < 1.5 * len(bodies[-1])


def test_a_cut_stream_is_estimated_by_the_complete_ones_of_its_organisation(
    ingester, run, tmp_path
):
    for number in range(5):
        spool_stream(run, f"whole-{number}", 1000, is_cut=False)
    ingester.run_round()
    spool_stream(run, "cut", 500, is_cut=True)
    spool_stream(run, "elsewhere", 500, is_cut=True, organization_id="b")
    ingester.run_round()
    source, tokens = read_output(tmp_path, "cut")
    assert (source, tokens) == ("estimated", pytest.approx(1000, rel=0.05))  # 2 characters a token
    source, tokens = read_output(tmp_path, "elsewhere", "b")
    assert (source, tokens) == ("estimated", round(2000 / CHARACTERS_PER_TOKEN))


def test_the_first_calls_of_a_model_are_measured_and_then_few(ingester, run, tmp_path):
    more = 2 * EVERY
    for number in range(FIRST_CALLS + more):
        spool_stream(run, f"{number:03d}", 10, is_cut=False)
    while ingester.run_round().handled:
        pass
    with closing(sqlite3.connect(trace_path(tmp_path, "a"))) as db:
        (calls,) = db.execute("select calls from output_sizes").fetchone()
    assert FIRST_CALLS < calls <= FIRST_CALLS + more // EVERY + 1


def test_a_cut_stream_of_an_organisation_that_cannot_be_opened_waits(ingester, run, tmp_path):
    path = trace_path(tmp_path, "a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1000)
    spool_stream(run, "cut", 500, is_cut=True)
    ingester.run_round()
    assert len(spooled(tmp_path)) == 1
    path.unlink()


def test_on_a_full_disk_what_can_be_done_later_leaves_the_reserve_to_calls(tmp_path, clock):
    steps = []

    class Later(BackgroundWork):
        def run_step(self):
            steps.append(self.waits_for_room)
            return False

    class Ordered(Later):
        waits_for_room = False

    disk = DiskRoom(tmp_path, 0)
    disk.refill()
    ingester = make_ingester(
        tmp_path,
        disk=disk,
        clock_s=clock,
        make_work=lambda databases: [
            kind(databases, clock, lambda *_: False, "") for kind in (Later, Ordered)
        ],
    )
    with closing(ingester), closing(disk):
        for prepare, expected in (
            (disk.measure, [True, False]),
            (disk.make_room, [False]),
            (disk.refill, [True, False]),
        ):
            prepare()
            steps.clear()
            ingester.work_in_background()
            assert steps == expected
