"""The recorder writes the labels and notes that people order."""

from datetime import timedelta

import pytest

from recorder import annotations as work
from recorder.annotations import LOOK_S, AnnotationWork, carry_out_once
from runtime import clock
from store.annotation_rules import Subject
from store.control import annotation_orders
from store.traces import annotations
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry


def count_labels(connection):
    return dict(connection.execute("select label, count(*) from labels group by label").fetchall())


@pytest.fixture
def databases(databases, organization):
    databases.open(organization).insert([make_entry(session_id="s1")])
    return databases


@pytest.fixture
def traces(databases, organization):
    return databases.open(organization).connection


@pytest.fixture
def order(control, organization):
    """Order a label or a note."""

    def order(kind, id_, **what):
        with control.transaction() as db:
            subject = Subject(kind, id_)
            return annotation_orders.place(db, organization, subject, by=None, **what)

    return order


@pytest.fixture
def ordered(control, organization):
    def read():
        with control.reading() as db:
            return annotation_orders.list_of(db, organization, 100)

    return read


@pytest.fixture
def run(tmp_path, databases, clock):
    """Do all that is there to do, some time later."""
    running = AnnotationWork(tmp_path, tmp_path / "control.db", databases, clock)

    def run():
        clock.now_s += LOOK_S
        while running.run_step():
            pass

    yield run
    running.close()


def texts(found):
    return [each.label for each in found.labels], found.note and found.note.text


def test_orders_are_carried_out_in_their_order_and_gone_then(run, order, ordered, traces):
    order("session", "s1", label="slow")
    order("session", "s1", label="odd")
    order("session", "s1", label="slow", is_removal=True)
    order("call", "1", text="first")
    order("call", "1", text="second")
    run()
    assert texts(annotations.read_of_session(traces, "s1")) == (["odd"], None)
    assert texts(annotations.read_of_call(traces, 1)) == ([], "second")
    assert not ordered()
    order("call", "1", is_removal=True)
    run()
    assert annotations.read_of_call(traces, 1) == annotations.NOTHING


def test_more_orders_than_fit_into_one_step_are_carried_out(
    run, order, ordered, traces, monkeypatch
):
    monkeypatch.setattr(work, "AT_ONCE", 2)
    for number in range(5):
        order("session", "s1", label=f"label {number}")
    run()
    assert len(annotations.read_of_session(traces, "s1").labels) == 5
    assert not ordered()


def test_an_order_about_what_is_gone_is_forgotten(run, order, ordered, traces):
    order("session", "gone", label="slow")
    order("call", "4711", text="x")
    run()
    assert not ordered()
    assert count_labels(traces) == {}


def test_an_organisation_without_calls_has_nothing_made_for_it(run, control, tmp_path, ordered):
    with control.transaction() as db:
        db.execute("insert into organizations (id, name, created_at) values ('other', 'o', '')")
        annotation_orders.place(db, "other", Subject("call", "1"), label="slow", by=None)
    run()
    assert not trace_path(tmp_path, "other").exists()


def test_of_several_copies_each_carries_an_order_out_once(order, ordered, traces, tmp_path):
    order("session", "s1", label="slow")
    carry_out_once(traces, ordered())
    annotations.remove_label(traces, Subject("session", "s1"), "s1", "slow")
    carry_out_once(traces, ordered())
    assert count_labels(traces) == {}
    with TraceDatabase(tmp_path / "copy.db") as copy:
        copy.insert([make_entry(session_id="s1")])
        carry_out_once(copy.connection, ordered())
        assert count_labels(copy.connection) == {"slow": 1}


def test_a_copy_waits_for_the_call_that_an_order_is_about(order, ordered, tmp_path, monkeypatch):
    call = make_entry()
    order("call", call.entry_id, label="slow")
    with TraceDatabase(tmp_path / "copy.db") as copy:
        carry_out_once(copy.connection, ordered())
        copy.insert([call])
        carry_out_once(copy.connection, ordered())
        assert count_labels(copy.connection) == {"slow": 1}
        order("call", "gone", label="slow")
        later = clock.now() + work.PATIENCE + timedelta(seconds=1)
        monkeypatch.setattr(clock, "now", lambda: later)
        carry_out_once(copy.connection, ordered())
        done = "select count(*) from annotations_done"
        assert copy.connection.execute(done).fetchone() == (2,)
        carry_out_once(copy.connection, [])
        assert copy.connection.execute(done).fetchone() == (0,)
