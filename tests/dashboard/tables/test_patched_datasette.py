import sqlite3

import pytest

from dashboard.tables import patched_datasette


def test_what_a_library_opens_when_it_is_imported_is_closed():
    connect = sqlite3.connect
    with patched_datasette._closing_connections():
        connection = sqlite3.connect(":memory:")
        assert connection.execute("select 1").fetchone() == (1,)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")
    assert sqlite3.connect is connect
