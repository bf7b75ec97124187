"""Notes are found by the words in them, as texts are."""

import sqlite3

import pytest

from store.annotation_rules import Subject
from store.traces import annotations
from store.traces.annotations import Note
from store.traces.search import notes
from store.traces.search.notes import search_notes
from store.traces.search.query import parse_query
from tests.store.traffic import make_entry


@pytest.fixture
def noted(traces):
    """Notes about a session and about a call of it."""
    traces.insert([make_entry(session_id="s1"), make_entry(session_id="s1")])
    about_session = Note(text="The Tracker was restarted at 100 %.", by=None, at="2026-01-01")
    annotations.write_note(traces.connection, Subject("session", "s1"), "s1", about_session)
    about_call = Note(text="tracker: café", by=None, at="2026-01-02")
    annotations.write_note(traces.connection, Subject("call", "2"), 2, about_call)
    return traces.connection


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("TRACKER", [(None, 2), ("s1", None)]),
        ("restarted the", [("s1", None)]),
        ('"was restarted"', [("s1", None)]),
        ('"restarted was"', []),
        ("cafe", [(None, 2)]),
        ("restart*", [("s1", None)]),
        ("restart", []),
        ("tracker nobody", []),
        ("100", [("s1", None)]),
        ("%", []),
        ("", []),
    ],
)
def test_notes_are_found_by_their_words_the_newest_first(noted, text, found):
    hits = search_notes(noted, parse_query(text))
    assert [(each.session_id, each.usage_id) for each in hits] == found


def test_few_are_listed(noted, monkeypatch):
    monkeypatch.setattr(notes, "MAX_FOUND", 1)
    (hit,) = search_notes(noted, parse_query("tracker"))
    assert hit.note.text == "tracker: café"


def test_a_database_of_before_has_none(tmp_path):
    connection = sqlite3.connect(tmp_path / "old.db")
    assert search_notes(connection, parse_query("tracker")) == []
    connection.close()
