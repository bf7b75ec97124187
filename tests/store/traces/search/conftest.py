"""An indexer of the texts of calls."""

import time
from collections.abc import Callable

import pytest

from store.traces.database import TraceDatabase
from store.traces.search.indexer import Indexer


@pytest.fixture
def index(traces: TraceDatabase) -> Callable[..., None]:
    """Indexes all that is recorded."""
    indexer = Indexer(traces.connection, time.monotonic)

    def index(indexer: Indexer = indexer) -> None:
        while indexer.run(10):
            pass

    return index
