"""A recorder of a copy erases what it keeps, also what comes later."""

import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest

from extensions.cluster import erasure_copies
from extensions.cluster.copy_erasures import CopyErasureWork
from recorder.background import RETRY_S
from runtime import clock as wall_clock
from store.control import erasures, retention
from store.control.retention import Rule
from store.spool.writer import SpoolRun
from store.traces.paths import trace_path
from tests.recorder.test_ingest import spool_call
from tests.recorder.test_removals import (
    BODY,
    WORD,
    count_calls,
    order,
    read_log,
    read_order,
    record,
    work,
)
from tests.store.stored_words import find_word


def work_in_copy(tmp_path):
    return CopyErasureWork(tmp_path, tmp_path / "spool", "main")


def read_state(control, erasure):
    with control.reading() as db:
        return erasure_copies.find(db, erasure.id, "node", "main")


def note_arrival(control, erasure):
    """Note that all calls of before an order have been received, as the process ``cluster`` does."""
    with control.transaction() as db:
        state = erasure_copies.find(db, erasure.id, "node", "main")
        erasure_copies.write(db, replace(state, shipped="2026", settled_at=None))


@pytest.fixture
def node(tmp_path):
    (tmp_path / "node.id").write_text("node")


def test_calls_that_come_after_an_erasure_and_began_before_are_erased(
    tmp_path, start, run, control, organization, clock, node
):
    ingester = start(work_in_copy(tmp_path))
    early = [wall_clock.new_id() for _ in range(3)]
    spool_call(run, early[0], organization, body=BODY, session_id="s")
    record(ingester)
    erasure = order(control, organization, session="s")
    work(ingester, clock)
    state = read_state(control, erasure)
    assert state.erased_at is not None
    assert (state.entries, state.settled_at) == (1, None)
    with control.reading() as db:  # a backup that was begun before says so
        assert erasures.list_ended_since(db, state.erased_at) == [organization]
    spool_call(run, early[1], organization, body=BODY, session_id="s")
    spool_call(run, wall_clock.new_id(), organization, body=b"{}", session_id="t")
    record(ingester)
    work(ingester, clock)
    assert read_state(control, erasure).entries == 2
    assert count_calls(tmp_path, organization) == 1
    assert find_word(tmp_path, WORD) == []
    ingester = start(work_in_copy(tmp_path))  # also after it was killed
    spool_call(run, early[2], organization, body=BODY, session_id="s")
    note_arrival(control, erasure)
    work(ingester, clock)
    assert read_state(control, erasure).settled_at is None, "a call waits to be recorded"
    record(ingester)
    work(ingester, clock)
    state = read_state(control, erasure)
    assert state.settled_at is not None
    assert state.entries == 3
    assert find_word(tmp_path, WORD) == []
    assert read_order(control, erasure).ended_at is None, "the node with people ends it"
    assert read_log(control, organization) == []


def test_a_node_makes_no_database_for_what_it_does_not_keep(
    tmp_path, start, control, organization, clock, node
):
    ingester = start(work_in_copy(tmp_path))
    erasure = order(control, organization, session="s")
    with control.transaction() as db:
        yesterday = wall_clock.now() - timedelta(days=2)
        retention.write(db, organization, Rule(entry_days=1), yesterday)
    work(ingester, clock)
    assert read_state(control, erasure).erased_at is not None
    note_arrival(control, erasure)
    work(ingester, clock)
    assert read_state(control, erasure).settled_at is not None
    assert not trace_path(tmp_path, organization).exists()


def test_texts_of_calls_that_come_late_go_from_a_copy_also_where_that_fails_at_first(
    tmp_path, start, control, organization, clock, monkeypatch, node
):
    ingester = start(work_in_copy(tmp_path))
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
    assert read_state(control, erasure).entries == 1


def test_calls_that_were_erased_before_their_bucket_was_moved_here_are_counted(
    tmp_path, start, run, control, organization, clock, node
):
    ingester = start(work_in_copy(tmp_path))
    spool_call(run, wall_clock.new_id(), organization, body=BODY, session_id="s")
    record(ingester)
    erasure = order(control, organization, session="s")
    work(ingester, clock)
    state = read_state(control, erasure)
    with control.transaction() as db:  # as of a node that had nothing when the order came
        erasure_copies.write(db, replace(state, entries=0))
    ingester = start(work_in_copy(tmp_path))
    note_arrival(control, erasure)
    work(ingester, clock)
    state = read_state(control, erasure)
    assert state.settled_at is not None
    assert state.entries == 1
