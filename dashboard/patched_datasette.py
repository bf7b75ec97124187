"""Datasette, with what it does beside its work turned off. Import it from here only."""

import gc
import sqlite3
import warnings
from pathlib import Path

with warnings.catch_warnings():
    # To find out what SQLite can, it opens connections and leaves them to the collector.
    warnings.simplefilter("ignore", ResourceWarning)
    import datasette.app
    import datasette.facets
    import datasette.handle_exception
    import datasette.utils.sqlite
    from datasette.app import Datasette
    from datasette.database import Database, QueryInterrupted, Results
    from datasette.views.base import DatasetteError

    gc.collect()  # some hang in cycles

__all__ = ["STATIC", "Database", "Datasette", "DatasetteError", "QueryInterrupted", "Results"]

STATIC = Path(datasette.app.__file__).parent / "static"

# With rich installed, it prints every local variable at each mistake in a query: bodies too.
datasette.handle_exception.rich = None
# It asks for each page. Every SQLite that Python 3.12 runs with has JSON.
datasette.facets.detect_json1 = lambda: True
datasette.utils.sqlite._cached_sqlite_version = sqlite3.sqlite_version_info
