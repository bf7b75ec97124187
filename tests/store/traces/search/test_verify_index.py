"""Verification of the search index."""

import time

import pytest

from store.traces.search.indexer import Indexer
from tests.store.traces.search.conversation import assistant, record, request, response, user

CALLS = (
    (request(user("where is the zebrafinch")), response("in the quokkadile nest")),
    (
        request(
            user("where is the zebrafinch"), assistant("in the quokkadile nest"), user("wombat")
        ),
        response("éa 42"),
    ),
)


@pytest.fixture
def indexed(traces):
    record(traces, *CALLS)
    assert not Indexer(traces.connection, time.monotonic).run(60)
    return traces


def list_problems(traces):
    return [problem.message for problem in traces.verify()]


def test_what_was_indexed_has_no_problems(indexed):
    assert list_problems(indexed) == []
    (last,) = indexed.connection.execute("select max(created_at) from usage").fetchone()
    indexed.prune(before=last, pause=lambda _: None)
    assert indexed.count_entries() == 1
    assert list_problems(indexed) == []


def test_calls_that_are_still_to_be_indexed_are_no_problem(traces):
    record(traces, *CALLS)
    assert list_problems(traces) == []
    traces.connection.execute("update search_progress set indexed_to_id = 2")
    traces.connection.execute("insert into search_gaps values (2, 1)")
    assert list_problems(traces) == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("insert into search_text (search_text) values ('delete-all')", "the words of piece"),
        (
            "insert into search_response (search_response) values ('delete-all')",
            "the words of the response of call 1 are not in the search index",
        ),
        (
            "delete from search_responses where usage_id = 2",
            "the response of call 2 is not in the search index",
        ),
        ("delete from search_responses where usage_id = 1", "what it is a copy of is not either"),
        ("update search_pieces set usage_id = 99", "is indexed with a call that is gone"),
    ],
)
def test_what_cannot_be_found_is_named(indexed, sql, message):
    indexed.connection.execute(sql)
    assert any(message in each for each in list_problems(indexed))
