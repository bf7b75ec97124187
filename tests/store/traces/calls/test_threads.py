"""The calls of message threads. How they are displayed is tested with the pages."""

import sqlite3
from contextlib import closing

from store.traces.calls.threads import Thread, find_thread, has_threads


def test_a_database_that_no_newer_recorder_has_opened_has_no_threads():
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create table usage (id integer primary key)")
        assert not has_threads(db)
        assert find_thread(db, 1) == Thread()
