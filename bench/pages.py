"""``python -m bench.pages``: the time of pages with a million calls, alone and beside others' load.

One service, and three kinds of organisations in it: one with 1,000,000 calls, one with 1,000, and 300
with one call each. Every page is asked for at the front door with the cookie of a person who signed in,
of the large and of the small organisation in turns, so that both feel whatever else the machine does.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import quote

import psutil

from bench import hostile
from bench.background import background
from bench.filling import fill
from bench.live import measure_live
from bench.load import HOST, REPOSITORY, BenchError, Neighbours, Proxy, judge, percentile, taximeter
from bench.long_session import LAST_BYTES, SESSION, TURNS, add_session
from bench.visitor import Visitor
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase

MANY, FEW, ORGANIZATIONS = 1_000_000, 1_000, 300
ROUNDS, TARGET_MS = 30, 100.0
CALL_TARGET_MS, COMPARE_TARGET_MS, SESSION_TARGET_MS = 150.0, 300.0, 300.0
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
ENDLESS_AT_ONCE = 12
TARGETED = (
    "home",
    "overview, 7 days",
    "overview, 90 days",
    "overview by session, 30 days",
    "newest traces",
    "one trace",
    "savings of 90 days",
)


def pages(count: int) -> dict[str, str]:
    """Return the paths of pages of an organisation with this many calls, by their names."""
    metadata = json.loads((REPOSITORY / "datasette-metadata.json").read_text())
    queries = metadata["databases"]["traces"]["queries"]
    middle = count // 2
    return {
        "home": "/",
        "overview, 7 days": "/overview",
        "overview, 90 days": "/overview?span=90d",
        "overview by session, 30 days": "/overview?span=30d&by=session",
        "newest traces": "/traces/usage",
        "traces of one session, with totals": "/traces/usage?session_id=session-1",
        "next page": f"/traces/usage?_next={count - 50}%2C{count - 50}&_sort_desc=id",
        "one trace": f"/traces/usage/{middle}",
        "savings of 90 days": "/savings?span=90d",
        "two calls compared": f"/traces/usage/{count - 1}/compare/{count}",
        "one trace, JSON": f"/traces/usage/{middle}.json",
        "newest call with bodies, JSON": "/traces/usage_log.json?_size=1",
        "database": "/traces",
    } | {name: f"/traces/{name}" for name in queries}


def measure_pages(large: Visitor, small: Visitor, rounds: int, many: int) -> None:
    print(f"  {'':34} {FEW:9,} calls {many:9,} calls")
    for name, path in pages(many).items():
        other = pages(FEW)[name]
        small.time_page(other)
        try:
            large.time_page(path)
            pairs = [(small.time_page(other), large.time_page(path)) for _ in range(rounds)]
        except BenchError as error:
            print(f"  {name:34} {error}: NOT MET")
            continue
        few_ms, many_ms = ([pair[at] for pair in pairs] for at in (0, 1))
        print(f"  {name:34} {median(few_ms):9.1f} ms    {median(many_ms):9.1f} ms    ", end="")
        print(
            f"x{median(many_ms) / median(few_ms):.2f}   p99 {percentile(many_ms, 99):.1f} ms",
            end="",
        )
        print(judge(median(many_ms), TARGET_MS) if name in TARGETED else "")


def measure_long_session(large: Visitor, last_id: int, rounds: int) -> None:
    """Time the page of the last call of a long session, and parts of it."""
    print(f"  the last call of a session of {TURNS} turns, {LAST_BYTES / 1000:.0f} KB:")
    address = f"/traces/usage/{last_id}"
    targets_ms = {
        "call": CALL_TARGET_MS,
        "call, what fills it": CALL_TARGET_MS,
        "compared with the call before": COMPARE_TARGET_MS,
        "session, what filled it": SESSION_TARGET_MS,
    }
    for name, path in {
        "call": address,
        "compared with the call before": f"/traces/usage/{last_id - 1}/compare/{last_id}",
        "compared with the middle": f"/traces/usage/{last_id - TURNS // 2}/compare/{last_id}",
        "call, its front": f"{address}/request/front/part",
        "call, 50 earlier messages": f"{address}/request/messages/1-600/part",
        "call, the whole conversation": f"{address}/request/read",
        "call, what fills it": f"{address}/context",
        "session, what filled it": f"/sessions/{SESSION}/context",
    }.items():
        large.time_page(path)
        times_ms = [large.time_page(path) for _ in range(rounds)]
        print(f"  {name:34} {'':16}{median(times_ms):9.1f} ms    ", end="")
        print(f"p99 {percentile(times_ms, 99):.1f} ms", end="")
        target_ms = targets_ms.get(name)
        print("" if target_ms is None else judge(median(times_ms), target_ms))


def measure_endless(large: Visitor, small: Visitor, port: int, rounds: int) -> None:
    """Time a page of the small organisation while the large one keeps its query process busy."""
    page = "/traces/usage"
    before_ms = [small.time_page(page) for _ in range(rounds)]
    with background(*[partial(_repeat_endless, large, port)] * ENDLESS_AT_ONCE):
        time.sleep(1)  # until they are at it
        during_ms = [small.time_page(page) for _ in range(rounds)]
    ratio = median(during_ms) / median(before_ms)
    print(
        f"  newest traces alone {median(before_ms):.1f} ms, during {ENDLESS_AT_ONCE} endless",
        end="",
    )
    print(f" queries of another {median(during_ms):.1f} ms: x{ratio:.2f}", end="")
    print(f"   p99 {percentile(during_ms, 99):.1f} ms")


def _repeat_endless(visitor: Visitor, port: int, is_over: threading.Event) -> None:
    """Send an endless query, and again when its time is over."""
    while not is_over.is_set():
        with closing(HTTPConnection(HOST, port, timeout=120)) as connection:
            path = f"/traces.json?sql={quote(ENDLESS)}"
            connection.request("GET", path, headers=visitor.headers)
            connection.getresponse().read()


def measure_many(visitors: Sequence[Visitor], service: Proxy) -> None:
    """Print the memory and descriptors of the web process after visits to many organisations."""
    web = psutil.Process(service.pids["web"])
    pool = psutil.Process(service.pids["queries"])
    _print_held(web, pool, 0)
    for number in range(1, 2 * len(visitors) + 1):
        visitor = visitors[(number - 1) % len(visitors)]
        visitor.connect(service.port)
        with closing(visitor):
            visitor.time_page("/traces/usage")
        if number in (100, 200, 300, 600):
            _print_held(web, pool, number)


def _print_held(web: psutil.Process, pool: psutil.Process, visits: int) -> None:
    rss_mb = web.memory_info().rss / 1e6
    print(f"  after {visits:3} visits: web RSS {rss_mb:6.1f} MB, ", end="")
    print(f"{web.num_threads():3} threads, {web.num_fds():3} descriptors; query processes", end="")
    for process in pool.children():
        memory = process.memory_full_info()
        print(f" {memory.rss / 1e6:.0f} MB ({memory.uss / 1e6:.0f} of its own)", end="")
    print()


def prepare(folder: Path, many: int) -> tuple[Visitor, Visitor, list[Visitor]]:
    """Fill the databases. The large one of an earlier run is used again."""
    data_dir = folder / "data"
    filled = folder / f"calls-{many}.db"
    if not filled.exists():
        started_s = time.monotonic()
        fill(folder / "filling.db", many)
        (folder / "filling.db").rename(filled)
        print(f"  {many:,} calls made in {time.monotonic() - started_s:.0f} s")
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
        large, small, first, *others = (
            Visitor(control, data_dir, f"org-{number}-{time.time_ns()}")
            for number in range(2 + ORGANIZATIONS)
        )
    for visitor in (large, small, first, *others):
        visitor.path.parent.mkdir(parents=True)
    shutil.copy(filled, large.path)
    fill(small.path, FEW)
    fill(first.path, 1)
    for visitor in others:
        shutil.copy(first.path, visitor.path)
    return large, small, [first, *others]


def run(parent: Path | None, rounds: int, many: int) -> None:
    with ExitStack() as stack:
        if parent is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="taximeter-")))
        else:
            parent.mkdir(parents=True, exist_ok=True)
            folder = parent
            stack.callback(shutil.rmtree, folder / "data", ignore_errors=True)
        large, small, others = prepare(folder, many)
        service, _ = stack.enter_context(taximeter(folder, 9, 1))
        for visitor in (large, small):
            visitor.connect(service.port)
            stack.callback(visitor.close)
        last_id = add_session(large.path)
        neighbours = Neighbours()
        measure_pages(large, small, rounds, many)
        print("  and while calls are being stored:")
        with background(partial(_store, large.path)):
            for name in ("newest traces", "one trace"):
                times_ms = [large.time_page(pages(many)[name]) for _ in range(rounds)]
                print(f"  {name:34} {'':16}{median(times_ms):9.1f} ms")
        measure_long_session(large, last_id, rounds)
        measure_live(large, service.port, service.pids["web"], rounds)
        measure_endless(large, small, service.port, rounds)
        measure_many(others, service)
        print(f"  others took {neighbours.share():.0%} of the machine meanwhile")


def _store(path: Path, is_over: threading.Event) -> None:
    """Store some twenty calls a second, as a recorder does."""
    with TraceDatabase(path) as traces:
        count = traces.count_entries()
    while not is_over.wait(0.05):
        count += 1
        fill(path, count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument(
        "--dir",
        type=Path,
        help="where the data goes; the million calls stay there for the next run",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=MANY, help="of the large organisation")
    parser.add_argument(
        "--attacks",
        action="store_true",
        help="instead: how long others wait while six organisations send hostile queries",
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="of each attack")
    arguments = parser.parse_args()
    try:
        if arguments.attacks:
            hostile.run(arguments.dir, arguments.seconds)
        else:
            run(arguments.dir, arguments.rounds, arguments.calls)
    except BenchError as error:
        sys.exit(f"bench: {error}")


if __name__ == "__main__":
    main()
