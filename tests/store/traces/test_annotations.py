"""Labels and notes in the traces: how they are read, and that they go with what they are about."""

import sqlite3

import pytest

from store.annotation_rules import MAX_LABELS, Subject
from store.traces import annotations, steps
from store.traces.annotations import NOTHING, Label, Note
from store.traces.calls.judgements import Judgement
from store.traces.maintenance.criteria import Criteria
from tests.store.traffic import make_entry

AT = "2026-01-02T03:04:05.678Z"


def label(traces, kind, id_, *labels, text=None):
    """Label a session or call, and write a note about it."""
    subject = Subject(kind, id_)
    row = annotations.find_row(traces.connection, subject)
    assert row is not None
    for each in labels:
        given = Label(label=each, by="ann@example.org", at=AT)
        annotations.write_label(traces.connection, subject, row, given)
    if text is not None:
        note = Note(text=text, by=None, at=AT)
        annotations.write_note(traces.connection, subject, row, note)


def names(found):
    return [each.label for each in found.labels]


@pytest.fixture
def two(traces):
    """Two calls of a session, and one of another."""
    calls = [make_entry(session_id=session) for session in ("s/1", "s/1", "s2")]
    traces.insert(calls)
    return calls


def test_a_session_and_a_call_have_labels_and_a_note(traces, two):
    label(traces, "session", "s/1", "slow", "expensive", "slow", text="Look at this.")
    label(traces, "call", two[1].entry_id, "odd", text="first")
    label(traces, "call", "2", "odd", text="second")
    found = annotations.read_of_session(traces.connection, "s/1")
    assert found.labels[0] == Label(label="expensive", by="ann@example.org", at=AT)
    assert (names(found), found.note) == (
        ["expensive", "slow"],
        Note(text="Look at this.", by=None, at=AT),
    )
    of_call = annotations.read_of_call(traces.connection, 2)
    assert of_call.note is not None
    assert (names(of_call), of_call.note.text) == (["odd"], "second")
    assert annotations.read_of_call(traces.connection, 1) == NOTHING
    assert annotations.list_labels_of_sessions(traces.connection, ["s/1", "s2"]) == {
        "s/1": ["expensive", "slow"]
    }
    assert annotations.read_of_call(traces.connection, 3) == NOTHING


def test_sql_joins_them(traces, two):
    label(traces, "session", "s/1", "slow")
    label(traces, "call", "3", "odd")
    rows = traces.connection.execute(
        "select l.label, u.entry_id from labels as l"
        " join usage as u on u.id = l.usage_id or u.session_id = l.session_id order by 1, u.id"
    ).fetchall()
    assert rows == [("odd", two[2].entry_id), *(("slow", each.entry_id) for each in two[:2])]


def test_they_are_taken_away(traces, two):
    label(traces, "session", "s2", "slow", "odd", text="x")
    subject = Subject("session", "s2")
    annotations.remove_label(traces.connection, subject, "s2", "slow")
    annotations.remove_label(traces.connection, subject, "s2", "never")
    annotations.remove_note(traces.connection, subject, "s2")
    found = annotations.read_of_session(traces.connection, "s2")
    assert (names(found), found.note) == (["odd"], None)


def test_no_more_labels_are_given_than_there_may_be(traces, two):
    label(traces, "call", "1", *(f"label {number:02}" for number in range(MAX_LABELS + 2)))
    assert len(annotations.read_of_call(traces.connection, 1).labels) == MAX_LABELS
    label(traces, "call", "2", "another")
    assert names(annotations.read_of_call(traces.connection, 2)) == ["another"]


@pytest.mark.parametrize("subject", [Subject("session", "none"), Subject("call", "77")])
def test_what_is_not_there_has_no_row(traces, two, subject):
    assert annotations.find_row(traces.connection, subject) is None


def test_a_call_takes_its_own_with_it_and_the_last_one_those_of_its_session(traces, two):
    for id_ in ("1", "2", "3"):
        label(traces, "call", id_, "odd", text="x")
    label(traces, "session", "s/1", "slow", text="x")
    label(traces, "session", "s2", "slow", text="x")
    traces.prune(before=two[1].created_at, pause=lambda _: None)
    left = [names(annotations.read_of_call(traces.connection, number)) for number in (1, 2, 3)]
    assert left == [[], ["odd"], ["odd"]]
    assert names(annotations.read_of_session(traces.connection, "s/1")) == ["slow"]
    erasing = traces.erase_in_steps("e", Criteria(session="s/1"))
    with steps.patient(traces.connection):
        assert steps.run(erasing, lambda _: None) == 1
    columns = "select session_id, usage_id from"
    labels = traces.connection.execute(f"{columns} labels order by id").fetchall()
    notes = traces.connection.execute(f"{columns} notes order by id").fetchall()
    assert labels == notes == [(None, 3), ("s2", None)]


def test_they_follow_the_calls_of_an_unnamed_session_into_another(traces):
    one, two, three, four = calls = [
        make_entry(message_id=f"m{number}", thread="continue" if number == 3 else None)
        for number in range(1, 5)
    ]
    traces.insert(
        calls,
        [
            Judgement(entry_id=two.entry_id, previous_entry_id=one.entry_id),
            Judgement(entry_id=four.entry_id, previous_entry_id=three.entry_id),
        ],
    )
    label(traces, "session", "unnamed-1", "slow", text="first")
    label(traces, "session", "unnamed-3", "slow", "odd", text="second")
    traces.insert([], [Judgement(entry_id=three.entry_id, previous_entry_id=two.entry_id)])
    found = annotations.read_of_session(traces.connection, "unnamed-1")
    assert found.note is not None
    assert (names(found), found.note.text) == (["odd", "slow"], "first")
    assert annotations.read_of_session(traces.connection, "unnamed-3") == NOTHING


def test_a_database_of_before_has_none(tmp_path):
    connection = sqlite3.connect(tmp_path / "old.db")
    assert annotations.read_of_session(connection, "s") == NOTHING
    assert annotations.list_labels_of_sessions(connection, ["s"]) == {}
    connection.close()
