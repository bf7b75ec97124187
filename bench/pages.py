"""The time of pages with a million calls, alone and beside others' load.

One service, and several kinds of organisations in it: one with 1,000,000 calls, one with 1,000, one with
1,000,000 texts, and 300 with one call each. Every page is requested at the front door with the cookie of a
person who signed in, of the large and of the small organisation in turns, so that both feel whatever else
the machine does.
"""

import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import quote, quote_plus

import psutil

from bench import searching
from bench.background import background
from bench.figures import Figure
from bench.filling import fill
from bench.live import measure_live
from bench.load import HOST, REPOSITORY, BenchError, Proxy, percentile, taximeter
from bench.long_session import LAST_BYTES, SESSION, TURNS, add_session
from bench.options import Options
from bench.visitor import Visitor
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase

MANY, FEW, ORGANIZATIONS = 1_000_000, 1_000, 300
QUICK_MANY, QUICK_TEXTS, QUICK_ORGANIZATIONS = 20_000, 20_000, 5
TEXTS = 1_000_000
ROUNDS, QUICK_ROUNDS, TARGET_MS, SEARCH_TARGET_MS = 30, 5, 100.0, 200.0
CALL_TARGET_MS, COMPARE_TARGET_MS, SESSION_TARGET_MS = 150.0, 300.0, 300.0
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
ENDLESS_AT_ONCE = 12
TARGETED = (
    "home",
    "overview, 7 days",
    "overview, 90 days",
    "overview by session, 30 days",
    "newest traces",
    "sessions",
    "one trace",
    "savings of 90 days",
)
# Pages that also respond where they have nothing to show, with what they show.
SHOWN = {"sessions": b'href="/sessions/', "session": b"Turn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitors:
    """People of organisations with many calls, with few, with many texts, and with one call each."""

    large: Visitor
    small: Visitor
    texts: Visitor
    others: Sequence[Visitor]


def pages(count: int) -> Mapping[str, str]:
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
        "sessions": "/sessions",
        "traces of one session, with totals": "/traces/usage?session_id=session-1",
        "next page": f"/traces/usage?_next={count - 50}%2C{count - 50}&_sort_desc=id",
        "one trace": f"/traces/usage/{middle}",
        "savings of 90 days": "/savings?span=90d",
        "two calls compared": f"/traces/usage/{count - 1}/compare/{count}",
        "one trace, JSON": f"/traces/usage/{middle}.json",
        "newest call with bodies, JSON": "/traces/usage_log.json?_size=1",
        "database": "/traces",
    } | {name: f"/traces/{name}" for name in queries}


def measure_pages(visitors: Visitors, rounds: int, many: int) -> Iterator[Figure]:
    for name, path in pages(many).items():
        other = pages(FEW)[name]
        row, title = f"pages/{name}", f"{many:,} calls: {name}"
        target = TARGET_MS if name in TARGETED else None
        visitors.small.time_page(other)
        try:
            visitors.large.time_page(path, has=SHOWN.get(name, b""))
            pairs = [
                (visitors.small.time_page(other), visitors.large.time_page(path))
                for _ in range(rounds)
            ]
        except BenchError as error:
            yield Figure(
                row=row, title=title, value=None, unit="ms", target=target, note=str(error)
            )
            continue
        few_ms = median(small for small, _ in pairs)
        note = f"x{median(large for _, large in pairs) / few_ms:.2f} of {FEW:,} calls"
        yield make_page(row, title, [large for _, large in pairs], target, note)


def make_page(
    row: str, title: str, times_ms: Sequence[float], target: float | None = None, note: str = ""
) -> Figure:
    """Return the figure of a page: the median of its times, with their p99."""
    p99 = f"p99 {percentile(times_ms, 99):.1f} ms"
    return Figure(
        row=row,
        title=title,
        value=median(times_ms),
        unit="ms",
        target=target,
        low=min(times_ms),
        high=max(times_ms),
        note=f"{p99}; {note}" if note else p99,
    )


def measure_while_storing(large: Visitor, rounds: int, many: int) -> Iterator[Figure]:
    """Time pages of an organisation whose calls are being stored."""
    with background(partial(_store, large.path)):
        for name in ("newest traces", "one trace"):
            times_ms = [large.time_page(pages(many)[name]) for _ in range(rounds)]
            title = f"{many:,} calls: {name}, while calls are stored"
            yield make_page(f"pages/storing/{name}", title, times_ms)


def measure_long_session(large: Visitor, last_id: int, rounds: int) -> Iterator[Figure]:
    """Time the page of the last call of a long session, parts of it, and the page of the session."""
    address = f"/traces/usage/{last_id}"
    targets_ms = {
        "session": SESSION_TARGET_MS,
        "call": CALL_TARGET_MS,
        "call, what fills it": CALL_TARGET_MS,
        "compared with the call before": COMPARE_TARGET_MS,
        "session, what filled it": SESSION_TARGET_MS,
    }
    for name, path in {
        "session": f"/sessions/{SESSION}",
        "call": address,
        "compared with the call before": f"/traces/usage/{last_id - 1}/compare/{last_id}",
        "compared with the middle": f"/traces/usage/{last_id - TURNS // 2}/compare/{last_id}",
        "call, its front": f"{address}/request/front/part",
        "call, 50 earlier messages": f"{address}/request/messages/1-600/part",
        "call, the whole conversation": f"{address}/request/read",
        "call, what fills it": f"{address}/context",
        "session, what filled it": f"/sessions/{SESSION}/context",
    }.items():
        large.time_page(path, has=SHOWN.get(name, b""))
        times_ms = [large.time_page(path) for _ in range(rounds)]
        title = f"session of {TURNS} turns, {LAST_BYTES // 1000} KB: {name}"
        yield make_page(f"pages/long/{name}", title, times_ms, targets_ms.get(name))


def measure_search(visitor: Visitor, rounds: int, texts: int) -> Iterator[Figure]:
    """Time searches over many texts, with their snippets and the counts of later calls."""
    for name, text in searching.QUERIES.items():
        path = f"/search?q={quote_plus(text)}"
        visitor.time_page(path, has=b"<mark>" if name in searching.FOUND else b"")
        times_ms = [visitor.time_page(path) for _ in range(rounds)]
        title = f"search over {texts:,} texts: {name}"
        yield make_page(f"pages/search/{name}", title, times_ms, SEARCH_TARGET_MS)


def measure_endless(visitors: Visitors, port: int, rounds: int) -> Iterator[Figure]:
    """Time a page of the small organisation while the large one keeps its query process busy."""
    page = "/traces/usage"
    before_ms = [visitors.small.time_page(page) for _ in range(rounds)]
    with background(*[partial(_repeat_endless, visitors.large, port)] * ENDLESS_AT_ONCE):
        time.sleep(1)  # until they are at it
        during_ms = [visitors.small.time_page(page) for _ in range(rounds)]
    ratio = median(during_ms) / median(before_ms)
    title = f"newest traces during {ENDLESS_AT_ONCE} endless queries of another organisation"
    yield make_page("pages/endless", title, during_ms, TARGET_MS, f"x{ratio:.2f} of before")


def _repeat_endless(visitor: Visitor, port: int, is_over: threading.Event) -> None:
    """Send an endless query, and again when its time is over."""
    while not is_over.is_set():
        with closing(HTTPConnection(HOST, port, timeout=120)) as connection:
            path = f"/traces.json?sql={quote(ENDLESS)}"
            connection.request("GET", path, headers=visitor.make_headers(port))
            connection.getresponse().read()


def measure_many(visitors: Sequence[Visitor], service: Proxy) -> Iterator[Figure]:
    """Yield the memory of the web process after visits to many organisations."""
    web = psutil.Process(service.pids["web"])
    pool = psutil.Process(service.pids["queries"])
    for visitor in [*visitors, *visitors]:
        visitor.connect(service.port)
        with closing(visitor):
            visitor.time_page("/traces/usage")
    own_mb = [process.memory_full_info().uss / 1e6 for process in pool.children()]
    yield Figure(
        row="pages/memory",
        title=f"RSS of the web process after {2 * len(visitors)} visits to {len(visitors)} organisations",
        value=web.memory_info().rss / 1e6,
        unit="MB",
        note=f"{web.num_threads()} threads, {web.num_fds()} descriptors; query processes: "
        + ", ".join(f"{mb:.0f} MB" for mb in own_mb),
    )


def prepare(folder: Path, many: int, texts: int, organizations: int) -> Visitors:
    """Fill the databases. The large ones of an earlier run are used again."""
    data_dir = folder / "data"
    filled = folder / f"calls-{many}.db"
    if not filled.exists():
        fill(folder / "filling.db", many)
        (folder / "filling.db").rename(filled)
    indexed = searching.prepare(folder, texts)
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
        large, small, search, first, *others = (
            Visitor(control, data_dir, f"org-{number}-{time.time_ns()}")
            for number in range(3 + organizations)
        )
    for visitor in (large, small, search, first, *others):
        visitor.path.parent.mkdir(parents=True)
    shutil.copy(filled, large.path)
    shutil.copy(indexed, search.path)
    fill(small.path, FEW)
    fill(first.path, 1)
    for visitor in others:
        shutil.copy(first.path, visitor.path)
    return Visitors(large=large, small=small, texts=search, others=[first, *others])


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of all pages. With a folder of options, the large databases stay there."""
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    many, texts = options.choose(MANY, QUICK_MANY), options.choose(TEXTS, QUICK_TEXTS)
    with ExitStack() as stack:
        folder = options.parent or stack.enter_context(options.folder())
        folder.mkdir(parents=True, exist_ok=True)
        stack.callback(shutil.rmtree, folder / "data", ignore_errors=True)
        organizations = options.choose(ORGANIZATIONS, QUICK_ORGANIZATIONS)
        visitors = prepare(folder, many, texts, organizations)
        service, _ = stack.enter_context(taximeter(folder, 9, 1))
        for visitor in (visitors.large, visitors.small, visitors.texts):
            visitor.connect(service.port)
            stack.callback(visitor.close)
        last_id = add_session(visitors.large.path)
        yield from measure_pages(visitors, rounds, many)
        yield from measure_while_storing(visitors.large, rounds, many)
        yield from measure_long_session(visitors.large, last_id, rounds)
        yield from measure_search(visitors.texts, rounds, texts)
        yield from measure_live(visitors.large, service.port, service.pids["web"], rounds)
        yield from measure_endless(visitors, service.port, rounds)
        yield from measure_many(visitors.others, service)


def _store(path: Path, is_over: threading.Event) -> None:
    """Store some twenty calls a second, as a recorder does."""
    with TraceDatabase(path) as traces:
        count = traces.count_entries()
    while not is_over.wait(0.05):
        count += 1
        fill(path, count)
