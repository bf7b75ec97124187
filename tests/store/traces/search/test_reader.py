"""Pages of a search: what takes too long goes on with the next one."""

import itertools
import time

import pytest

from store.traces.calls.predecessors import write_previous
from store.traces.database import TraceDatabase
from store.traces.search.filtering import Filter
from store.traces.search.indexer import Indexer
from store.traces.search.query import parse_query
from store.traces.search.reader import SEARCH_S, Place, SearchReader
from tests.store.traces.search.conversation import record, request, response, user


def test_each_page_of_a_slow_search_has_something_and_the_last_ends_it(tmp_path):
    with TraceDatabase(tmp_path / "traces.db") as traces:
        for number in range(3):
            record(traces, (request(user(f"a wombat {number}")), response("-")))
        Indexer(traces.connection, time.monotonic).run(60)
        # Whatever is done takes longer than a search may.
        clock = itertools.count(step=2 * SEARCH_S)
        reader = SearchReader(traces.connection, lambda: float(next(clock)))
        place: Place | None = Place()
        said = []
        while place is not None:
            found = reader.search(parse_query("wombat"), Filter(), 20, place)
            said.append([hit.snippet.text for hit in found.hits])
            assert found.is_cut is (found.next_place is not None)
            place = found.next_place
    assert said == [["a wombat 2"], ["a wombat 1"], ["a wombat 0"]]


@pytest.fixture(name="thread")
def make_thread(tmp_path):
    """A search in a thread of four calls, a day apart, and a call of another session on its last day."""
    said = (user("a wombat"), user("a numbat"), user("an emu"), user("a koala"))
    with TraceDatabase(tmp_path / "traces.db") as traces:
        for day, message in enumerate(said, start=1):
            record(
                traces,
                (request(message), response(f"reply{day}")),
                created_at=f"2026-02-0{day}T10:00:00.000Z",
                model="claude-opus-4-6" if day == 2 else "claude-sonnet-4-5",
                thread="continue" if day > 1 else "create",
                message_id=f"msg_{day}",
                thread_previous_id=f"msg_{day - 1}" if day > 1 else None,
            )
            if day > 1:
                write_previous(traces.connection, day, day - 1)
        record(
            traces,
            (request(user("a platypus")), response("-")),
            created_at="2026-02-04T11:00:00.000Z",
            session_id="other",
        )
        Indexer(traces.connection, time.monotonic).run(60)
        reader = SearchReader(traces.connection, lambda: 0.0)  # for which no time passes

        def search(words, **only):
            found = reader.search(parse_query(words), Filter(**only), 20, Place())
            return [(hit.call.usage_id, hit.other_calls) for hit in found.hits]

        yield search


@pytest.mark.parametrize("words", ["wombat", "reply1", "numbat", "reply2"])
def test_the_first_call_within_the_filters_stands_for_what_its_thread_said_before(thread, words):
    since = "2026-02-03"
    assert thread(words, since=since) == [(3, 1)]
    assert thread(words, since=since, session_id="other") == []
    assert thread(words, since="2026-02-04") == [(4, 0)]


def test_what_a_thread_said_is_not_found_in_the_calls_before_it(thread):
    assert thread("emu", until="2026-02-03") == []
    assert thread("reply2", until="2026-02-03") == [(2, 2)]
    assert thread("wombat", until="2026-02-03") == [(1, 3)]


def test_a_call_within_the_filters_has_the_history_before_calls_that_they_leave_out(thread):
    assert thread("numbat", model="claude-sonnet*") == [(3, 1)]
    assert thread("reply1", model="claude-opus*") == [(2, 2)]
    assert thread("platypus", model="claude-sonnet*") == [(5, 0)]
