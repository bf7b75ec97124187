"""Upgrading a stored database as a service of today does."""

import time
from contextlib import closing
from pathlib import Path

from recorder.disk import DiskRoom
from recorder.ingest import Ingester
from store.price_file import load_prices
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from store.traces.search.indexer import Indexer
from tests.store.upgrades.dumps import load


def upgrade(dump: Path, data_dir: Path, organization_id: str) -> Path:
    """Make the database of a dump, and let a recorder do all that it does in its pauses."""
    path = trace_path(data_dir, organization_id)
    load(dump, path)
    prices = load_prices()
    with closing(
        Ingester(
            data_dir,
            data_dir / "spool",
            lambda: prices,
            DiskRoom(data_dir, 0),
            lambda: 0.0,
            lambda _: None,
        )
    ) as ingester:
        ingester.update_databases()
        while ingester.fill_columns():
            pass
    index_texts(path)
    return path


def index_texts(path: Path) -> None:
    """Index what was said in all calls, without the pauses of a recorder."""
    with TraceDatabase(path) as traces:
        indexer = Indexer(traces.connection, time.monotonic)
        while indexer.run(1.0):
            pass
