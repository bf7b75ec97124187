"""The waiting of others while six organisations send hostile queries.

Each attacker sends its query again when it has a response, also when it was refused. Meanwhile a
person of another organisation requests each of the other pages by turns.
"""

# ruff: noqa: S608 - SQL made of text is what is tried here

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from operator import itemgetter
from typing import Protocol
from urllib.parse import quote, quote_plus

import psutil

from bench.background import background
from bench.figures import Figure
from bench.filling import fill
from bench.load import HOST, BenchError, Proxy, percentile, taximeter
from bench.options import Options
from bench.visitor import Visitor
from store.control.database import ControlDatabase

ATTACKERS, UNREAD_EACH, TARGET_MS = 6, 16, 100.0
SECONDS, QUICK_SECONDS = 15.0, 5.0  # of each attack
CALLS = 1_000
OTHERS = {
    "home": "/",
    "sign-in": "/sign-in/link",
    "health": "/healthz",
    "API": "/api/proxy-endpoints",
    "a call": "/traces/usage/500",
    "own query": "/traces.json?sql=select+model,count(*)+from+usage+group+by+1",
}
WANTED = {"API": 401, "sign-in": 410}  # without a key, and without a token
_LONG = (
    "(select s from (with recursive d(s) as (select 'xxxxxxxxxxxxxxxx' union all select s || s from d"
    " where length(s) < 3800000) select s from d order by length(s) desc limit 1))"
)
ATTACKS = {
    "check of the text": "/**/" + " " * 30_000 + "x",
    "many names": "with " + "a as(1)," * 3_600 + "b as (select 1) select * from b",
    "many parentheses": "select " + "(a)" * 8_500,
    "glob": f"select s glob '*{'[a-z]' * 39}1', s glob '*{'[^b]' * 49}1' from {_LONG}",
    "union recursion": "with recursive n(i, t) as (select 1, hex('padding') union select i + 1,"
    " hex(i || 'padding') || printf('%0500d', i) from n) select count(*) from n",
    "memory": "select group_concat(s || 1), group_concat(s || 2), group_concat(s || 3), hex(s)"
    f" from {_LONG}, json_each('[1, 2, 3, 4, 5, 6, 7, 8]')",
    "endless": "with recursive n(i) as (select 1 union all select i + 1 from n)"
    " select count(*) from n",
}
FIFTEEN_MB = (
    "with recursive d(s) as (select 'xxxxxxxxxxxxxxxx' union all select s || s from d where"
    " length(s) < 900000), n(i) as (select 1 union all select i + 1 from n where i < 15)"
    " select i, (select s from d order by length(s) desc limit 1) as body from n"
)


class Attack(Protocol):
    """Sends a query until the event is set, and counts the statuses of the responses."""

    def __call__(self, is_over: threading.Event, /, *, statuses: Counter[object]) -> None: ...


def measure(options: Options) -> Iterator[Figure]:
    """Yield the slowest p99 of others' pages for each attack. Raises BenchError."""
    seconds = options.choose(SECONDS, QUICK_SECONDS)
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        with ControlDatabase(folder / "data" / "control.db") as control:
            control.set_up()
            names = [f"hostile-{number}" for number in range(ATTACKERS + 1)]
            victim, *attackers = (Visitor(control, folder / "data", name) for name in names)
        for visitor in (victim, *attackers):
            visitor.path.parent.mkdir(parents=True)
            fill(visitor.path, CALLS)
        service, _ = stack.enter_context(taximeter(folder, 9, 1))
        yield _measure("nothing", service, victim, [], seconds)
        for name, query in ATTACKS.items():
            path = f"/traces.json?sql={quote_plus(query)}"
            attacks = [repeat(service.port, each, path) for each in attackers]
            yield _measure(name, service, victim, attacks, seconds)
            time.sleep(seconds)  # so that one does not pay for another
        attacks = [leave_unread(service.port, each) for each in attackers[:2]]
        yield _measure("not reading", service, victim, attacks, seconds)


def repeat(port: int, visitor: Visitor, path: str) -> Attack:
    """Return an attack that requests a page again and again."""

    def attack(is_over: threading.Event, /, *, statuses: Counter[object]) -> None:
        while not is_over.is_set():
            with closing(HTTPConnection(HOST, port, timeout=60)) as connection:
                try:
                    connection.request("GET", path, headers=visitor.make_headers(port))
                    response = connection.getresponse()
                    response.read()
                except (OSError, HTTPException):
                    statuses["cut"] += 1
                    continue
                statuses[response.status] += 1
                if response.status == 429:
                    is_over.wait(0.05)

    return attack


def leave_unread(port: int, visitor: Visitor) -> Attack:
    """Return an attack that requests large results and reads none of them."""
    path = f"/traces.json?sql={quote(FIFTEEN_MB)}"

    def attack(is_over: threading.Event, /, *, statuses: Counter[object]) -> None:
        with ExitStack() as stack:
            for _ in range(UNREAD_EACH):
                connection = stack.enter_context(closing(HTTPConnection(HOST, port, timeout=60)))
                connection.request("GET", path, headers=visitor.make_headers(port))
            is_over.wait()

    return attack


def _measure(
    name: str, service: Proxy, victim: Visitor, attacks: list[Attack], seconds: float
) -> Figure:
    statuses: Counter[object] = Counter()
    peaks = _Peaks(service)
    with background(peaks.watch, *(partial(attack, statuses=statuses) for attack in attacks)):
        end_s = time.monotonic() + seconds
        times_ms, failures = request_others(victim, service.port, lambda: time.monotonic() >= end_s)
    memory = ", ".join(f"{part} {mb:.0f} MB" for part, mb in peaks.peaks_mb.items())
    note = f"peaks: {memory}; attackers got {dict(statuses)}"
    row, title = f"hostile/{name}", f"others' slowest p99 during hostile queries: {name}"
    enough = {page: each for page, each in times_ms.items() if len(each) > 1}
    if failures or len(enough) < len(OTHERS):
        why = failures[0] if failures else f"too few responses in {seconds:g} s"
        return Figure(
            row=row, title=title, value=None, unit="ms", target=TARGET_MS, note=f"{why}; {note}"
        )
    page, worst_ms = max(
        ((page, percentile(each, 99)) for page, each in enough.items()), key=itemgetter(1)
    )
    return Figure(
        row=row,
        title=title,
        value=worst_ms,
        unit="ms",
        target=TARGET_MS,
        note=f"{page}; {note}",
    )


def request_others(
    victim: Visitor, port: int, until: Callable[[], bool]
) -> tuple[Mapping[str, list[float]], list[str]]:
    """Return the times of pages by their names, and what went wrong."""
    times_ms: dict[str, list[float]] = {name: [] for name in OTHERS}
    failures = []
    while not until():
        for name, path in OTHERS.items():
            victim.connect(port)
            with closing(victim):
                try:
                    times_ms[name].append(victim.time_page(path, WANTED.get(name, 200)))
                except BenchError as error:
                    failures.append(f"{name}: {error}")
        time.sleep(0.02)
    return times_ms, failures


class _Peaks:
    """The peak memory of each part of a service in MB; query processes count as one part."""

    def __init__(self, service: Proxy) -> None:
        self._pids = service.pids
        self.peaks_mb: dict[str, float] = {}

    def watch(self, is_over: threading.Event) -> None:
        while not is_over.wait(0.1):
            for part in ("proxy", "web"):
                self._note(part, [psutil.Process(self._pids[part])])
            if pool := self._pids.get("queries"):
                self._note("query processes", psutil.Process(pool).children())

    def _note(self, name: str, processes: list[psutil.Process]) -> None:
        total_mb = 0.0
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                total_mb += process.memory_full_info().uss / 1e6
        self.peaks_mb[name] = max(self.peaks_mb.get(name, 0.0), total_mb)
