"""Pages of a search: what takes too long goes on with the next one."""

import itertools
import time

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
