"""``python -m bench.searching``: searches over a million texts, and the locks of indexing them.

The texts are parts of the standard library, each in a message of its own. They are indexed as those of
calls that were recorded before there was an index: from the newest call down.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import batched
from pathlib import Path
from random import Random
from sqlite3 import Connection
from statistics import median

from bench.filling import make_plain_entry
from bench.load import judge
from bench.traffic import make_text
from store import database
from store.traces.database import TraceDatabase
from store.traces.search import indexer
from store.traces.search.indexer import Indexer
from store.traces.search.query import parse_query
from store.traces.search.reader import Filter, Place, SearchReader

MESSAGES, CHARACTERS, BATCH = 50, 150, 50
ROUNDS, TARGET_MS, LOCK_TARGET_MS = 20, 200.0, 100.0
QUERIES = {
    "a word of one text": "wombat7",
    "a word of many texts": "self",
    "two common words": "self return",
    "a phrase": '"if not"',
    "a beginning": "conf*",
    "a phrase of none": '"return wombat7"',
}


def make_requests(texts: int) -> Iterator[bytes]:
    """Yield the bodies of calls with so many texts in all."""
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
    """Record calls with so many texts, ten in a session."""
    bodies = enumerate(make_requests(texts))
    for batch in batched(bodies, BATCH):
        traces.insert(
            [make_plain_entry(number, body, f"session-{number // 10}") for number, body in batch]
        )


@contextmanager
def timed_locks(times_s: list[float]) -> Iterator[None]:
    """Note how long each transaction holds the write lock."""
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


def measure_indexing(traces: TraceDatabase) -> None:
    """Index everything, and print the time and the longest lock."""
    indexer.MAX_NEW = 0  # as if all of it had been recorded before
    locks_s: list[float] = []
    started_s = time.process_time()
    with timed_locks(locks_s):
        while Indexer(traces.connection, time.monotonic).run(1e9):
            pass
    pieces, size = traces.connection.execute(
        "select (select count(*) from search_pieces), (select sum(length(block)) from search_text_data)"
    ).fetchone()
    cpu_s = time.process_time() - started_s
    print(f"  {pieces:,} texts indexed in {cpu_s:.0f} s of CPU, {size / pieces:.0f} bytes each")
    longest_ms = max(locks_s) * 1000
    print(f"  longest lock {longest_ms:.0f} ms, median {median(locks_s) * 1000:.1f} ms", end="")
    print(judge(longest_ms, LOCK_TARGET_MS))


def measure_searches(path: Path) -> None:
    """Print how long searches take, with snippets and the counts of later calls."""
    with closing(database.open_readonly(path, busy_timeout_s=1)) as connection:
        reader = SearchReader(connection)
        for name, text in QUERIES.items():
            times_ms, hits = [], 0
            for _ in range(ROUNDS):
                started_s = time.perf_counter()
                hits = len(reader.search(parse_query(text), Filter(), 20, Place()).hits)
                times_ms.append((time.perf_counter() - started_s) * 1000)
            print(
                f"  {name:24} {median(times_ms):7.1f} ms  ({hits} hits, most {max(times_ms):.1f} ms)",
                end="",
            )
            print(judge(median(times_ms), TARGET_MS))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.searching", description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the data goes, and stays for the next run")
    parser.add_argument("--texts", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = arguments.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / f"texts-{arguments.texts}" / "traces.db"
        with TraceDatabase(path) as traces:
            if not traces.count_entries():
                fill(traces, arguments.texts)
                measure_indexing(traces)
        measure_searches(path)


if __name__ == "__main__":
    main()
