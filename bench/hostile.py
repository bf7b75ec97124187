"""The waiting of others while six organisations send hostile queries: ``bench.pages --attacks``.

Each attacker sends its query again when it has a response, also when it was refused. Meanwhile a
person of another organisation requests each of the other pages by turns.
"""

# ruff: noqa: S608 - SQL made of text is what is tried here

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from urllib.parse import quote, quote_plus

import psutil

from bench.background import background
from bench.filling import fill
from bench.load import HOST, BenchError, Neighbours, Proxy, percentile, taximeter
from bench.visitor import Visitor
from store.control.database import ControlDatabase

ATTACKERS, UNREAD_EACH, TARGET_MS = 6, 16, 100.0
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


def run(parent: Path | None, seconds: float) -> None:
    with ExitStack() as stack:
        folder = parent or Path(stack.enter_context(TemporaryDirectory(prefix="taximeter-")))
        folder.mkdir(parents=True, exist_ok=True)
        with ControlDatabase(folder / "data" / "control.db") as control:
            control.set_up()
            names = [f"hostile-{time.time_ns()}-{number}" for number in range(ATTACKERS + 1)]
            victim, *attackers = (Visitor(control, folder / "data", name) for name in names)
        for visitor in (victim, *attackers):
            visitor.path.parent.mkdir(parents=True)
            fill(visitor.path, CALLS)
        service, _ = stack.enter_context(taximeter(folder, 9, 1))
        neighbours = Neighbours()
        print(f"  p50 / p99 in ms of: {', '.join(OTHERS)}")
        _measure("nothing", service, victim, [], seconds)
        for name, query in ATTACKS.items():
            path = f"/traces.json?sql={quote_plus(query)}"
            attacks = [_repeating(service.port, each, path) for each in attackers]
            _measure(name, service, victim, attacks, seconds)
            time.sleep(seconds)  # so that one does not pay for another
        attacks = [_unread(service.port, each) for each in attackers[:2]]
        _measure("not reading", service, victim, attacks, seconds)
        print(f"  others took {neighbours.share():.0%} of the machine meanwhile")


def _repeating(port: int, visitor: Visitor, path: str) -> Attack:
    def attack(is_over: threading.Event, /, *, statuses: Counter[object]) -> None:
        while not is_over.is_set():
            with closing(HTTPConnection(HOST, port, timeout=60)) as connection:
                try:
                    connection.request("GET", path, headers=visitor.headers)
                    response = connection.getresponse()
                    response.read()
                except (OSError, HTTPException):
                    statuses["cut"] += 1
                    continue
                statuses[response.status] += 1
                if response.status == 429:
                    is_over.wait(0.05)

    return attack


def _unread(port: int, visitor: Visitor) -> Attack:
    path = f"/traces.json?sql={quote(FIFTEEN_MB)}"

    def attack(is_over: threading.Event, /, *, statuses: Counter[object]) -> None:
        with ExitStack() as stack:
            for _ in range(UNREAD_EACH):
                connection = stack.enter_context(closing(HTTPConnection(HOST, port, timeout=60)))
                connection.request("GET", path, headers=visitor.headers)
            is_over.wait()

    return attack


def _measure(
    name: str, service: Proxy, victim: Visitor, attacks: list[Attack], seconds: float
) -> None:
    statuses: Counter[object] = Counter()
    peaks = _Peaks(service)
    with background(peaks.watch, *(partial(attack, statuses=statuses) for attack in attacks)):
        times_ms = _request_others(victim, service.port, seconds)
    worst = max(percentile(each, 99) for each in times_ms.values() if len(each) > 1)
    shown = "   ".join(
        f"{percentile(each, 50):.0f} / {percentile(each, 99):.0f}" if len(each) > 1 else "too few"
        for each in times_ms.values()
    )
    verdict = "met" if worst <= TARGET_MS else "NOT MET"
    print(f"  {name:18} {shown}   worst p99 {worst:.0f} ms, target {TARGET_MS:g}: {verdict}")
    memory = ", ".join(f"{part} {mb:.0f} MB" for part, mb in peaks.peaks_mb.items())
    print(f"  {'':18} {sum(map(len, times_ms.values()))} responses; peaks: {memory};", end="")
    print(f" attackers: {dict(statuses)}", flush=True)


def _request_others(victim: Visitor, port: int, seconds: float) -> Mapping[str, list[float]]:
    times_ms: dict[str, list[float]] = {name: [] for name in OTHERS}
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for name, path in OTHERS.items():
            victim.connect(port)
            with closing(victim):
                try:
                    took_ms = victim.time_page(path, WANTED.get(name, 200))
                except BenchError as error:
                    print(f"  {name}: {error}")
                    continue
                times_ms[name].append(took_ms)
        time.sleep(0.02)
    return times_ms


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
