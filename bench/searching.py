"""A database of a million texts to search, and the duration of write locks while they are indexed.

The texts are parts of the standard library, each in a message of its own. They are indexed like calls
that were recorded before there was an index: from the newest call down. ``bench.pages`` searches them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import batched
from pathlib import Path
from random import Random
from sqlite3 import Connection
from statistics import median

from bench.figures import Figure
from bench.filling import make_plain_entry
from bench.options import Options
from bench.traffic import make_text
from store import database
from store.traces.database import TraceDatabase
from store.traces.search import indexer
from store.traces.search.indexer import Indexer

MESSAGES, CHARACTERS, BATCH = 50, 150, 50
TEXTS, QUICK_TEXTS, LOCK_TARGET_MS = 1_000_000, 20_000, 100.0
QUERIES = {
    "a word of one text": "wombat7",
    "a word of many texts": "self",
    "two common words": "self return",
    "a phrase": '"if not"',
    "a beginning": "conf*",
    "a phrase of none": '"return wombat7"',
}
FOUND = set(QUERIES) - {"a phrase of none"}


def make_requests(texts: int) -> Iterator[bytes]:
    """Yield the bodies of requests with ``texts`` texts altogether."""
    dice = Random(1)  # noqa: S311 - no secret
    for first in range(0, texts, MESSAGES):
        messages = [
            {
                "role": ("user", "assistant")[number % 2],
                "content": [
                    {"type": "text", "text": f"wombat{number} {make_text(dice, CHARACTERS)}"}
                ],
            }
            for number in range(first, first + MESSAGES)
        ]
        yield json.dumps({"messages": messages}, separators=(",", ":")).encode()


def fill(traces: TraceDatabase, texts: int) -> None:
    """Record calls with ``texts`` texts altogether, ten in a session."""
    bodies = enumerate(make_requests(texts))
    for batch in batched(bodies, BATCH):
        traces.insert(
            [make_plain_entry(number, body, f"session-{number // 10}") for number, body in batch]
        )


@contextmanager
def timed_locks(times_s: list[float]) -> Iterator[None]:
    """Append to ``times_s`` how long each transaction in the block holds the write lock."""
    immediate = database.immediate

    @contextmanager
    def timed(connection: Connection) -> Iterator[None]:
        with immediate(connection):
            started_s = time.perf_counter()
            yield
        times_s.append(time.perf_counter() - started_s)

    database.immediate = timed
    try:
        yield
    finally:
        database.immediate = immediate


def prepare(folder: Path, texts: int) -> Path:
    """Return the path of a database of ``texts`` indexed texts. One left by an earlier run is reused."""
    path = folder / f"texts-{texts}.db"
    if not path.exists():
        filling = folder / "filling-texts.db"
        fill_and_index(filling, texts)
        filling.rename(path)
    return path


def fill_and_index(path: Path, texts: int) -> list[float]:
    """Record calls with ``texts`` texts and index them. Return how long each write lock was held, in
    seconds."""
    with TraceDatabase(path) as traces:
        fill(traces, texts)
        locks_s = index(traces)
        traces.connection.execute("pragma wal_checkpoint(truncate)")
    return locks_s


def index(traces: TraceDatabase) -> list[float]:
    """Index all texts in a database. Return how long each write lock was held, in seconds."""
    newest, indexer.MAX_NEW = indexer.MAX_NEW, 0
    locks_s: list[float] = []
    try:
        with timed_locks(locks_s):
            while Indexer(traces.connection, time.monotonic).run(1e9):
                pass
    finally:
        indexer.MAX_NEW = newest
    return locks_s


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of indexing."""
    texts = options.choose(TEXTS, QUICK_TEXTS)
    with options.folder() as folder:
        locks_s = fill_and_index(folder / "texts.db", texts)
    yield Figure(
        row="indexing/lock",
        title=f"indexing {texts:,} texts: longest write lock",
        value=max(locks_s) * 1000,
        unit="ms",
        target=LOCK_TARGET_MS,
        note=f"median {median(locks_s) * 1000:.1f} ms",
    )
