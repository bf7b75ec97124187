"""The components in the SQL. That it agrees with ``rollup`` is tested with verification and reports."""

import sqlite3
from contextlib import closing

from metering import token_counts
from metering.components import TOKEN_COMPONENTS, WEB_SEARCH
from store.traces.sums.booking_sql import IS_OF_CLASS, IS_SEARCH


def test_every_component_counts_in_one_class_of_tokens_or_as_a_search():
    assert IS_OF_CLASS.keys() == set(token_counts.NAMES)
    sums = [*IS_OF_CLASS.values(), IS_SEARCH]
    with closing(sqlite3.connect(":memory:")) as connection:
        for component in (*TOKEN_COMPONENTS, WEB_SEARCH):
            (counted,) = connection.execute(
                f"select {' + '.join(f'({sql})' for sql in sums)} from (select ? as component) as c",  # noqa: S608
                (component.name,),
            ).fetchone()
            assert counted == 1
