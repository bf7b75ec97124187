"""Rows of calls for a list, and the uses of their tools."""

import sqlite3
from contextlib import closing

import pytest

from store.traces.calls import listed_calls
from store.traces.calls.listed_calls import Chosen, list_calls, read_sessions
from store.traces.calls.tool_uses import read_uses_of

ALL = Chosen("true", ())


@pytest.fixture
def db():
    """Calls in the order of their arrival, which is not that of their ids."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(
            "create table usage (id integer primary key, created_at text, session_id text,"
            " outcome text)"
        )
        db.execute("create table unnamed_calls (usage_id integer primary key, first_id integer)")
        db.executemany(
            "insert into usage (id, created_at, outcome) values (?, ?, ?)",
            [(1, "b", "x"), (2, "a", "y"), (3, "b", "x"), (4, "c", "y")],
        )
        yield db


def ids(found):
    return [row["id"] for row in found.rows]


def test_calls_are_in_the_order_of_arrival_and_every_one_is_on_one_page(db):
    first = list_calls(db, ALL, None, 3)
    assert (ids(first), first.behind) == ([4, 3, 1], ("b", 1))
    second = list_calls(db, ALL, first.behind, 3)
    assert (ids(second), second.behind) == ([2], None)


def test_columns_of_a_newer_version_are_none(db):
    row = list_calls(db, ALL, None, 1).rows[0]
    assert (row["said_text"], row["session"]) == (None, None)


def test_call_that_continues_another_is_in_its_session(db):
    db.execute("insert into unnamed_calls values (4, 1)")
    assert list_calls(db, ALL, None, 1).rows[0]["session"] == "unnamed-1"


def test_few_calls_are_looked_for_among_so_many_at_a_time(db, monkeypatch):
    monkeypatch.setattr(listed_calls, "SEARCHED", 2)
    chosen = Chosen("u.outcome = ?", ("y",))
    first = list_calls(db, chosen, None, 9)
    assert (ids(first), first.behind) == ([4], ("b", 3))
    second = list_calls(db, chosen, first.behind, 9)
    assert (ids(second), second.behind) == ([2], ("a", 2))
    assert list_calls(db, chosen, second.behind, 9) == ([], None)


def test_tables_that_are_not_there_yet_have_nothing(db):
    assert read_sessions(db, ["s"]) == {}
    assert read_uses_of(db, [1, 2]) == {}
