"""The recorder applies the rules of retention once a day, and carries out orders to erase calls."""

import sqlite3
from datetime import timedelta

import pytest

from recorder.background import RETRY_S
from recorder.ingest import Ingester
from recorder.removals import LOOK_S, Removals
from runtime import clock as wall_clock
from store import erasure_work
from store.control import activity_log, erasures, people, retention
from store.control.retention import Rule
from store.erasure_work import LocalErasureWork
from store.spool import reader
from store.spool.writer import SpoolRun
from store.traces.database import TraceDatabase
from store.traces.maintenance.criteria import Criteria
from store.traces.paths import trace_path
from tests.recorder.ingesters import make_ingester
from tests.recorder.test_ingest import spool_call
from tests.store.stored_words import find_word

WORD = "quokkaplonkify"
BODY = b'{"model":"haiku","messages":[{"role":"user","content":"%s"}]}' % WORD.encode()


@pytest.fixture
def start(tmp_path, clock, control):
    """Start a recorder; the one before ends."""
    started: list[Ingester] = []

    def start(erasures_here=None):
        erasures_here = erasures_here or LocalErasureWork(tmp_path / "spool")
        for each in started:
            each.close()
        started[:] = [
            make_ingester(
                tmp_path,
                clock_s=clock,
                make_work=lambda databases: [
                    Removals(tmp_path / "control.db", databases, clock, erasures_here)
                ],
            )
        ]
        return started[0]

    yield start
    for each in started:
        each.close()


def record(ingester):
    while ingester.run_round().handled:
        pass


def work(ingester, clock, steps=60):
    for _ in range(steps):
        clock.now_s += LOOK_S
        ingester.work_in_background()


def order(control, organization, **criteria):
    with control.transaction() as db:
        return erasures.order(
            db, organization, None, Criteria(**criteria), wall_clock.now() + timedelta(seconds=1)
        )


def read_order(control, erasure):
    with control.reading() as db:
        return erasures.get(db, erasure.organization_id, erasure.id)


def read_log(control, organization):
    with control.reading() as db:
        return [(each.activity, each.details) for each in activity_log.read(db, organization)]


def count_calls(tmp_path, organization):
    with TraceDatabase(trace_path(tmp_path, organization)) as traces:
        return traces.count_entries()


def test_rules_are_applied_when_they_are_due(tmp_path, start, run, control, organization, clock):
    ingester = start()
    spool_call(run, "1", organization, body=BODY)
    spool_call(run, "2", organization, body=BODY, created_at="2999-01-01T00:00:00.000Z")
    record(ingester)
    yesterday = wall_clock.now() - timedelta(days=2)
    with control.transaction() as db:
        retention.write(db, organization, Rule(entry_days=1), wall_clock.now())
    work(ingester, clock)
    assert count_calls(tmp_path, organization) == 2, "its time has not come"
    with control.transaction() as db:
        retention.write(db, organization, Rule(entry_days=1), yesterday)
    work(ingester, clock)
    assert count_calls(tmp_path, organization) == 1
    with control.reading() as db:
        run = retention.find_run(db, organization)
        assert run is not None
        assert (run.entries, run.texts) == (1, 0)
        assert run.next_at > wall_clock.format_ms(wall_clock.now())
        assert retention.list_due(db, wall_clock.now()) == []
    [(activity, details)] = read_log(control, organization)
    assert activity == "applied the retention rules:"
    assert (details["calls"], details["service"]) == ("1", True)
    record(ingester)
    work(ingester, clock)
    assert len(read_log(control, organization)) == 1


def test_texts_are_removed_by_a_rule_of_an_endpoint(
    tmp_path, start, run, control, organization, clock
):
    ingester = start()
    spool_call(run, "1", organization, body=BODY)
    spool_call(run, "2", organization, body=b"{}", proxy_endpoint_id="other")
    record(ingester)
    yesterday = wall_clock.now() - timedelta(days=2)
    with control.transaction() as db:
        retention.write(db, organization, Rule(text_days=1), yesterday, "endpoint")
    work(ingester, clock)
    with TraceDatabase(trace_path(tmp_path, organization)) as traces:
        kept = "select count(request_body_length) from usage where entry_id = ?"
        counts = [traces.connection.execute(kept, (name,)).fetchone()[0] for name in "12"]
        assert counts == [0, 1]


def test_calls_in_flight_are_erased_when_they_have_been_recorded(
    tmp_path, start, run, control, organization, clock
):
    ingester = start()
    spool_call(run, wall_clock.new_id(), organization, body=BODY, session_id="s")
    record(ingester)
    head = {"body": BODY, "session_id": "s"}
    name = wall_clock.new_id()
    proxy = SpoolRun(tmp_path / "spool")
    spool_call(proxy, name, organization, finish=False, **head)
    erasure = order(control, organization, session="s")
    work(ingester, clock)
    state = read_order(control, erasure)
    assert state.erased_at is not None
    assert (state.entries, state.ended_at) == (1, None)
    [left] = find_word(tmp_path, WORD)
    assert name in left
    proxy.close()
    record(ingester)
    work(ingester, clock)
    state = read_order(control, erasure)
    assert state.ended_at is not None
    assert (state.entries, state.criteria) == (2, None)
    assert find_word(tmp_path, WORD) == []
    [(activity, details)] = read_log(control, organization)
    assert (activity, details) == (
        "finished erasing by",
        {"calls": "2", "what": "session", "service": True},
    )


def test_an_order_waits_alone_for_a_database_that_cannot_be_opened(
    tmp_path, start, run, control, organization, clock
):
    with control.transaction() as db:
        damaged = people.create_organization(db, "Damaged Ltd").id
    path = trace_path(tmp_path, damaged)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 100)
    ingester = start()
    spool_call(run, "1", organization, body=BODY)
    record(ingester)
    first = order(control, damaged, session="s")
    erasure = order(control, organization, endpoint="default")
    work(ingester, clock)
    assert read_order(control, first).ended_at is None
    assert read_order(control, erasure).ended_at is not None
    assert count_calls(tmp_path, organization) == 0


def test_an_erasure_goes_on_after_the_recorder_was_killed(
    tmp_path, start, run, control, organization, clock, monkeypatch
):
    ingester = start()
    for _ in range(20):
        spool_call(run, wall_clock.new_id(), organization, body=BODY, session_id="s")
    record(ingester)
    monkeypatch.setattr("store.traces.steps.LOCK_S", 0.0)
    erasure = order(control, organization, session="s")
    work(ingester, clock, steps=9)
    assert 0 < count_calls(tmp_path, organization) < 20
    work(start(), clock, steps=100)
    assert read_order(control, erasure).entries == 20
    assert find_word(tmp_path, WORD) == []


def test_texts_of_calls_that_come_late_go_also_where_that_fails_at_first(
    tmp_path, start, control, organization, clock, monkeypatch
):
    ingester = start()
    proxy = SpoolRun(tmp_path / "spool")
    name = wall_clock.new_id()
    spool_call(proxy, name, organization, finish=False, body=BODY, session_id="s")
    erasure = order(control, organization, session="s")
    work(ingester, clock)
    proxy.close()
    record(ingester)

    def fail(*_):
        raise sqlite3.OperationalError("locked")

    with monkeypatch.context() as patch:
        patch.setattr("store.traces.maintenance.erasing.finish", fail)
        work(ingester, clock, steps=9)
    assert count_calls(tmp_path, organization) == 0
    assert find_word(tmp_path, WORD) != []
    clock.now_s += RETRY_S
    work(ingester, clock)
    assert find_word(tmp_path, WORD) == []
    assert read_order(control, erasure).entries == 1


def test_what_could_not_be_recorded_is_erased_too(
    tmp_path, start, run, control, organization, clock
):
    for session_id in ("s", "other", None):
        name = wall_clock.new_id()
        spool_call(run, name, organization, body=BODY, session_id=session_id)
        done = next(each for each in reader.find_waiting(tmp_path / "spool") if name in each.file)
        reader.set_aside(tmp_path / "spool", done.path)
    (tmp_path / "spool" / "unreadable" / f"x~{organization}.done").write_bytes(b"nonsense")
    (tmp_path / "spool" / "unreadable" / f"y~{organization}-2.done").write_bytes(b"another's")
    erasure = order(control, organization, session="s")
    work(start(), clock)
    state = read_order(control, erasure)
    assert state.ended_at is not None
    assert state.set_aside == 2, "one is not a spool file, one has a session in its body perhaps"
    assert reader.count_unreadable(tmp_path / "spool") == 4


def test_what_cannot_be_removed_waits_and_harms_nobody(
    tmp_path, start, run, control, organization, clock, monkeypatch
):
    ingester = start()
    spool_call(run, wall_clock.new_id(), organization, body=BODY, session_id="s")
    record(ingester)
    erasure = order(control, organization, session="s")

    def fail(*_):
        raise sqlite3.OperationalError("locked")

    with monkeypatch.context() as patch:
        patch.setattr(erasure_work, "carry_out", fail)
        work(ingester, clock)
    assert read_order(control, erasure).erased_at is None
    record(ingester)
    clock.now_s += RETRY_S
    work(ingester, clock)
    assert read_order(control, erasure).ended_at is not None


def test_without_a_control_file_nothing_is_removed_and_none_is_made(tmp_path, clock):
    path = tmp_path / "control.db"
    ingester = make_ingester(
        tmp_path,
        clock_s=clock,
        make_work=lambda databases: [
            Removals(path, databases, clock, LocalErasureWork(tmp_path / "spool"))
        ],
    )
    work(ingester, clock, steps=2)
    ingester.close()
    assert not path.exists()
