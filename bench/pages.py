"""The time of pages with a million calls, alone and under load by others.

One service has three organisations: with 1,000,000 calls, with 1,000 calls, and with 1,000,000 texts. The
local user has 1,000 calls, too. Every page is requested at the front door with the cookie of a signed-in
person, in turns for the large and the small organisation, so that other load on the machine affects both.
"""

import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from statistics import median
from urllib.parse import quote, quote_plus

from bench import searching
from bench.figures import Figure
from bench.filling import MODELS, SESSION_CALLS, add_up_times, fill, fill_whole
from bench.load import HOST, BenchError, background, percentile, taximeter
from bench.long_session import LAST_BYTES, SESSION, TURNS, add_session
from bench.multiplying import multiply
from bench.options import Options
from bench.visitor import Visitor
from dashboard.status_line.pages import PATH as STATUS_LINE
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path

MANY, FEW, TEXTS = 1_000_000, 1_000, 1_000_000
QUICK_MANY, QUICK_TEXTS = 20_000, 20_000
ROUNDS, QUICK_ROUNDS, TARGET_MS, SEARCH_TARGET_MS = 30, 5, 100.0, 200.0
LARGER_TARGET_MS = 150.0  # of more than a million calls
STATUS_LINE_TARGET_MS = 5.0
CALL_TARGET_MS, COMPARE_TARGET_MS, SESSION_TARGET_MS = 150.0, 300.0, 300.0
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
ENDLESS_AT_ONCE = 12
# Pages that also respond where they have nothing to show, with what they show.
SHOWN = {
    "calls": b'data-key="',
    "sessions": b'href="/sessions/',
    "session": b"Turn",
    "tools": b"search_issues",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitors:
    """Signed-in people of the organisations with many calls, with few, and with many texts."""

    large: Visitor
    small: Visitor
    texts: Visitor


def pages(count: int) -> Mapping[str, str]:
    """Return the paths by name of the pages to measure for an organisation with ``count`` calls."""
    return {
        "home": "/",
        "home, tokens of 90 days": "/?period=90d&measure=tokens",
        "home, times of 90 days": "/?period=90d&measure=time&by=endpoint",
        "home by session, 30 days": "/?period=30d&by=session",
        "calls": "/calls",
        "calls by session": "/calls?by=session",
        "calls of a model that failed": f"/calls?model={MODELS[1]}&failed=1",
        "calls of all days in which a tool failed": "/calls?period=all&tool_failed=1",
        "calls with a tool, by project": "/calls?period=30d&tool=Grep&tag.project=project-7",
        "calls of all days with nothing that fits": "/calls?period=all&tool=nope",
        "newest traces": "/traces/usage",
        "sessions": "/sessions",
        "sessions of a week by cost": "/sessions?order=cost",
        "sessions of an endpoint that failed": "/sessions?endpoint=team-1&failed=1",
        "one session": f"/sessions/session-{count // (2 * SESSION_CALLS)}",
        "one trace": f"/calls/{count // 2}",
        "savings": "/savings",
        "savings of 90 days": "/savings?period=90d",
        "tools": "/tools",
        "tools of 90 days": "/tools?period=90d",
        "another model": "/savings/models",
        "another model, 90 days of an endpoint": "/savings/models?period=90d&endpoint=team-1",
    }


def measure_pages(visitors: Visitors, rounds: int, many: int) -> Iterator[Figure]:
    target = TARGET_MS if many <= MANY else LARGER_TARGET_MS
    for name, path in pages(many).items():
        other = pages(FEW)[name]
        row, title = f"pages/{name}", f"{many:,} calls: {name}"
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
    row: str, title: str, times_ms: Sequence[float], target: float, note: str = ""
) -> Figure:
    """Return the figure of a page: the median of its times in milliseconds, with their p99 in the note."""
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


def measure_long_session(large: Visitor, last_id: int, rounds: int) -> Iterator[Figure]:
    """Time the pages of a long session and of its last call."""
    address = f"/calls/{last_id}"
    compared = f"/traces/usage/{last_id - 1}/compare/{last_id}"
    for name, path, target in (
        ("session", f"/sessions/{SESSION}", SESSION_TARGET_MS),
        ("call", address, CALL_TARGET_MS),
        ("compared with the call before", compared, COMPARE_TARGET_MS),
        ("call, what fills it", f"/traces/usage/{last_id}/context", CALL_TARGET_MS),
        ("session, what filled it", f"/sessions/{SESSION}/context", SESSION_TARGET_MS),
    ):
        large.time_page(path, has=SHOWN.get(name, b""))
        times_ms = [large.time_page(path) for _ in range(rounds)]
        title = f"session of {TURNS} turns, {LAST_BYTES // 1000} KB: {name}"
        yield make_page(f"pages/long/{name}", title, times_ms, target)


def measure_status_line(port: int, rounds: int) -> Iterator[Figure]:
    """Time the status line of a session of the local user."""
    body = json.dumps({"session_id": "session-0"})
    times_ms = []
    with closing(HTTPConnection(HOST, port, timeout=120)) as connection:
        for _ in range(1 + rounds):  # the first one reads the calls
            started_s = time.perf_counter()
            connection.request("POST", STATUS_LINE, body)
            line = connection.getresponse().read()
            times_ms.append((time.perf_counter() - started_s) * 1000)
            if not line.startswith(b"$"):
                raise BenchError(f"the status line is {line!r}")
    yield make_page("pages/status line", "status line", times_ms[1:], STATUS_LINE_TARGET_MS)


def measure_search(visitor: Visitor, rounds: int, texts: int) -> Iterator[Figure]:
    """Time searches over ``texts`` texts, with snippets and counts of later calls."""
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
    """Send an endless query, and send it again when its time is over, until ``is_over`` is set."""
    while not is_over.is_set():
        with closing(HTTPConnection(HOST, port, timeout=120)) as connection:
            path = f"/traces.json?sql={quote(ENDLESS)}"
            connection.request("GET", path, headers=visitor.make_headers(port))
            connection.getresponse().read()


def prepare(folder: Path, many: int, texts: int) -> Visitors:
    """Fill the databases. Large ones left by an earlier run are reused."""
    data_dir = folder / "data"
    filled = fill_once(folder, many)
    indexed = searching.prepare(folder, texts)
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
        local = trace_path(data_dir, control.get_local_organization().id)
        large, small, search = (
            Visitor(control, data_dir, f"org-{number}-{time.time_ns()}") for number in range(3)
        )
    for path in (large.path, small.path, search.path, local):
        path.parent.mkdir(parents=True)
    shutil.copy(filled, large.path)
    add_up_times(large.path)  # of a database that an earlier version has filled
    shutil.copy(indexed, search.path)
    fill_whole(small.path, FEW)
    fill_whole(local, FEW)
    return Visitors(large=large, small=small, texts=search)


def fill_once(folder: Path, many: int) -> Path:
    """Return the path of a database of ``many`` calls, made unless an earlier run has left it."""
    filled = folder / f"calls-{many}.db"
    if filled.exists():
        return filled
    if many > MANY:
        multiply(fill_once(folder, MANY), filled, many // MANY)
    else:
        fill_whole(filled, many)
    return filled


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of all pages. If the options name a folder, the large databases are kept there."""
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    many = options.calls or options.choose(MANY, QUICK_MANY)
    texts = options.choose(TEXTS, QUICK_TEXTS)
    with ExitStack() as stack:
        folder = options.parent or stack.enter_context(options.folder())
        folder.mkdir(parents=True, exist_ok=True)
        stack.callback(shutil.rmtree, folder / "data", ignore_errors=True)
        visitors = prepare(folder, many, texts)
        last_id = add_session(visitors.large.path)  # before anybody else writes there
        service, _ = stack.enter_context(taximeter(folder, 9, 1))
        for visitor in (visitors.large, visitors.small, visitors.texts):
            visitor.connect(service.port)
            stack.callback(visitor.close)
        yield from measure_pages(visitors, rounds, many)
        yield from measure_long_session(visitors.large, last_id, rounds)
        yield from measure_search(visitors.texts, rounds, texts)
        yield from measure_status_line(service.port, rounds)
        yield from measure_live(visitors.large, service.port, rounds)
        yield from measure_endless(visitors, service.port, rounds)


LIVE_TARGET_MS = 1000.0


def measure_live(visitor: Visitor, port: int, rounds: int) -> Iterator[Figure]:
    """Yield the time until an open list displays a new call."""
    with TraceDatabase(visitor.path) as traces:
        count = traces.count_entries()
    times_ms = []
    with _follow(visitor, port) as stream:
        for more in range(1, rounds + 1):
            fill(visitor.path, count + more)
            stored_s = time.perf_counter()
            _wait_for_calls(stream)
            visitor.time_page("/traces/usage")
            times_ms.append((time.perf_counter() - stored_s) * 1000)
    p99_ms = percentile(times_ms, 99)
    yield Figure(
        row="live/shown",
        title="a stored call shown on an open list: p99",
        value=p99_ms,
        unit="ms",
        target=LIVE_TARGET_MS,
        note=f"median {median(times_ms):.1f} ms",
    )


@contextmanager
def _follow(visitor: Visitor, port: int) -> Iterator[HTTPResponse]:
    """Open an event stream and read its first events."""
    connection = HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request(
            "GET", "/live/events?after=0&flights=1", headers=visitor.make_headers(port)
        )
        stream = connection.getresponse()
        if stream.status != 200:
            raise BenchError(f"a stream responded with {stream.status}")
        _wait_for_calls(stream)
        yield stream
    finally:
        connection.close()


def _wait_for_calls(stream: HTTPResponse) -> None:
    while line := stream.readline():
        if line.strip() == b"event: calls":
            return
    raise BenchError("a stream ended")
