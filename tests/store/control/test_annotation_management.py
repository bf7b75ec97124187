"""Orders of labels and notes, which every member of an organisation may give."""

from datetime import timedelta

import pytest

from recorder.annotations import write_order
from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from store.annotation_rules import MAX_LABELS
from store.control import activity_log, annotation_orders
from store.control.management import Management
from store.traces import annotations
from store.traces.database import TraceDatabase
from store.traces.maintenance.criteria import Criteria
from store.traces.paths import trace_path
from tests.store.traffic import make_entry


@pytest.fixture
def call(people, tmp_path):
    """A call of Ann's organisation, of the session "s/1"."""
    entry = make_entry(session_id="s/1")
    with TraceDatabase(trace_path(tmp_path, people.ann.organization_id)) as traces:
        traces.insert([entry])
    return entry


def orders(control, caller):
    with control.reading() as db:
        return annotation_orders.list_of(db, caller.organization_id, 100)


def test_members_order_labels_and_notes(management, people, call, control):
    management.annotations.add_label(people.bob, "session", "s/1", "Slow")
    management.annotations.remove_label(people.ann, "call", "1", "odd")
    management.annotations.write_note(people.ann, "call", call.entry_id, "A note.\r\n")
    order = management.annotations.remove_note(people.ann, "session", "s/1")
    found = orders(control, people.ann)
    assert [
        (each.kind, each.subject, each.label, each.text, each.is_removal) for each in found
    ] == [
        ("session", "s/1", "slow", None, False),
        ("call", call.entry_id, "odd", None, True),
        ("call", call.entry_id, None, "A note.", False),
        ("session", "s/1", None, None, True),
    ]
    assert found[0].by == "bob@example.org"
    assert management.annotations.is_open(order)
    with control.transaction() as db:
        log = activity_log.read(db, people.ann.organization_id)
        annotation_orders.delete(db, [order.id])
    assert not management.annotations.is_open(order)
    assert [each.action for each in log[:4]] == [
        "note.delete",
        "note.write",
        "label.take",
        "label.give",
    ]
    assert "A note." not in str(log)


def test_they_are_of_what_the_organisation_has(management, people, call, control):
    for kind, id_ in (("session", "none"), ("call", "2"), ("call", "none"), ("session", "")):
        with pytest.raises(NotFoundError):
            management.annotations.add_label(people.ann, kind, id_, "slow")
    for kind, id_ in (("session", "s/1"), ("call", call.entry_id)):
        with pytest.raises(NotFoundError):
            management.annotations.write_note(people.cid, kind, id_, "x")
    assert not orders(control, people.ann)
    assert not orders(control, people.cid)


def test_what_is_no_label_and_no_note_is_refused(management, people, call, control):
    for text in ("", "x" * 41):
        with pytest.raises(InvalidInputError):
            management.annotations.add_label(people.ann, "call", "1", text)
    with pytest.raises(InvalidInputError):
        management.annotations.write_note(people.ann, "call", "1", "x" * 2_001)
    assert not orders(control, people.ann)


def test_a_call_has_so_many_labels_with_those_that_are_ordered(
    management, people, call, control, tmp_path
):
    for number in range(MAX_LABELS - 1):
        management.annotations.add_label(people.ann, "call", "1", f"label {number}")
    with TraceDatabase(trace_path(tmp_path, people.ann.organization_id)) as traces:
        done = orders(control, people.ann)[:10]
        assert all(write_order(traces.connection, each) for each in done)
        with control.transaction() as db:
            annotation_orders.delete(db, [each.id for each in done])
        assert len(annotations.read_of_call(traces.connection, 1).labels) == 10
    management.annotations.add_label(people.ann, "call", "1", "the last")
    with pytest.raises(LimitReachedError):
        management.annotations.add_label(people.ann, "call", "1", "one more")
    management.annotations.add_label(people.ann, "session", "s/1", "another subject")


def test_orders_are_forgotten_when_calls_are_erased(management, people, call, control):
    management.annotations.write_note(people.ann, "call", "1", "quotes what was said")
    later = Management(control, management.trace_path_of(people.ann), now=lambda: in_a_minute)
    in_a_minute = clock.now() + timedelta(minutes=1)
    later.removal.order_erasure(people.ann, Criteria(session="s/1"))
    assert not orders(control, people.ann)


def test_orders_that_no_copy_waits_for_are_forgotten(
    management, people, call, control, monkeypatch
):
    management.annotations.write_note(people.ann, "call", "1", "old")
    monkeypatch.setattr(annotation_orders, "KEPT", timedelta(seconds=-1))
    management.annotations.write_note(people.ann, "call", "1", "new")
    assert [each.text for each in orders(control, people.ann)] == ["new"]
