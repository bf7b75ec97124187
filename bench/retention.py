"""``python -m bench.retention``: retention and erasing on a million calls, and their locks.

Calls are those of ``bench.pages``. A step is what the recorder does between two rounds of recording. The
write-ahead log is written back between steps: SQLite does that after a commit, when it has given up the lock,
and so it counts as no part of it.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from statistics import median

from bench.filling import DAYS, fill
from bench.load import judge
from bench.searching import LOCK_TARGET_MS, timed_locks
from runtime import clock
from store.traces.database import TraceDatabase
from store.traces.maintenance.erasing import Criteria, count_calls
from store.traces.maintenance.removal import used_bytes
from store.traces.maintenance.retention import Limits, Rules
from store.traces.maintenance.retention_preview import read_preview
from store.traces.search.indexer import Indexer
from store.traces.steps import Steps

ID = "bench"
STEPS_TO_WRITE_BACK = 4
INDEXING_S = 20.0  # enough for an index that has to be merged


def before(share: float) -> str:
    """Return the instant before which this share of the calls arrived."""
    return clock.format_ms(clock.now() - timedelta(days=DAYS * (1 - share)))


def measure[Result](name: str, traces: TraceDatabase, work: Steps[Result]) -> Result:
    """Take all steps, and print how long they and their locks took."""
    traces.connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    locks_s: list[float] = []
    steps_s: list[float] = []
    steps_cpu_s: list[float] = []
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with timed_locks(locks_s):
        while True:
            step_began_s, step_began_cpu_s = time.perf_counter(), time.process_time()
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                break
            finally:
                steps_s.append(time.perf_counter() - step_began_s)
                steps_cpu_s.append(time.process_time() - step_began_cpu_s)
            if len(steps_s) % STEPS_TO_WRITE_BACK == 0:
                traces.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    longest_ms = max(locks_s, default=0) * 1000
    print(f"  {name}: {result}")
    print(f"    {took_s:.1f} s ({cpu_s:.1f} s of CPU) in {len(steps_s):,} steps", end="")
    print(
        f", longest {max(steps_s) * 1000:.0f} ms"
        f" (of CPU {max(steps_cpu_s) * 1000:.0f} ms), median {median(steps_s) * 1000:.1f} ms"
    )
    print(f"    longest lock {longest_ms:.0f} ms, median {median(locks_s) * 1000:.1f} ms", end="")
    print(judge(longest_ms, LOCK_TARGET_MS), flush=True)
    return result


def timed(name: str, function: Callable[[], object]) -> None:
    """Print how long a function takes, and what it returns."""
    began_s = time.perf_counter()
    result = function()
    print(f"  {name}: {(time.perf_counter() - began_s) * 1000:.0f} ms, {result}", flush=True)


def measure_all(path: Path) -> None:
    """Preview, remove texts, then calls, then down to a size, and erase a client and a session."""
    texts = Rules(limits=Limits(texts_before=before(0.3)))
    calls = Rules(limits=Limits(entries_before=before(0.1), texts_before=before(0.3)))
    with TraceDatabase(path) as traces:
        indexer = Indexer(traces.connection, time.monotonic)
        indexer.run(INDEXING_S)
        timed("preview of texts", lambda: read_preview(path, texts))
        measure("texts of 30 % of the calls", traces, traces.prune_in_steps(texts))
        timed("preview of calls", lambda: read_preview(path, calls))
        measure("10 % of the calls", traces, traces.prune_in_steps(calls))
        most = Rules(max_bytes=int(used_bytes(traces.connection) * 0.95))
        measure("to 95 % of the size", traces, traces.prune_in_steps(most))
        session = Criteria(session="session-3000")
        measure("erase a session", traces, traces.erase_in_steps(ID, session))
        endpoint = Criteria(endpoint="team-7", since=before(0.5))
        timed("count the calls of an endpoint", lambda: count_calls(path, endpoint))
        measure(
            "erase an endpoint since half of the time",
            traces,
            traces.erase_in_steps("two", endpoint),
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.retention", description=__doc__)
    parser.add_argument(
        "--database", type=Path, help="a file that bench.pages has filled; it stays"
    )
    parser.add_argument("--dir", type=Path, help="where there is room for a copy")
    parser.add_argument("--calls", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.dir)))
        path = folder / "traces.db"
        if arguments.database is None:
            fill(path, arguments.calls)
        else:
            shutil.copy(arguments.database, path)
        measure_all(path)


if __name__ == "__main__":
    main()
