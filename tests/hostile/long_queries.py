"""Hostile queries of six organisations at once, only by the command, for as many seconds as it is told.

Meanwhile a person of another organisation visits pages and asks small queries, as does one of a service
that nobody attacks.
"""

# ruff: noqa: S608 - SQL made of text is what is tried here

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import chain
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, quote_plus

import psutil
import pytest

from bench.filling import fill
from bench.load import HOST, BenchError, background
from bench.visitor import Visitor
from store.control.database import ControlDatabase
from tests.hostile.neighbours import AttackedUpstream, Neighbours
from tests.live.service import Service

ATTACKERS, UNREAD_EACH = 6, 16
CALLS = 1_000
OTHERS = {
    "home": "/",
    "sign-in": "/sign-in/link",
    "health": "/healthz",
    "API": "/api/proxy-endpoints",
    "a call": "/calls/500",
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
MEBI = 1 << 20
# Seven query processes at the most, each with a result and what making it took.
MOST_MEMORY = 7 * 85 * MEBI
MOST_DISK = 32 * MEBI


class Attack(Protocol):
    """Sends a query until the event is set, and counts the statuses of the responses."""

    def __call__(self, is_over: threading.Event, /, *, statuses: Counter[object]) -> None: ...


@dataclass(frozen=True, slots=True)
class World:
    """A service, the attackers there, and somebody else."""

    service: Service
    attackers: list[Visitor]
    other: Visitor


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of several organisations, which the others here do not have."""
    with (
        AttackedUpstream() as upstream,
        Service(
            tmp_path_factory.mktemp("queried"), upstream.url, TRUSTED_PROXIES="127.0.0.1"
        ) as service,
    ):
        yield service


@pytest.fixture(scope="module")
def world(service: Service) -> World:
    attackers = [make_visitor(service, number) for number in range(ATTACKERS)]
    return World(service, attackers, make_visitor(service, ATTACKERS))


@pytest.fixture(scope="module")
def control_visitor(control: Neighbours) -> Visitor:
    return make_visitor(control.service, 0)


def make_visitor(service: Service, number: int) -> Visitor:
    """Return somebody with an organisation and an address of their own, with some calls."""
    with ControlDatabase(service.data_dir / "control.db") as control:
        name, address = f"visitor-{number}", f"198.51.100.{number + 1}"
        visitor = Visitor(control, service.data_dir, name, address)
    visitor.path.parent.mkdir(parents=True)
    fill(visitor.path, CALLS)
    return visitor


@pytest.mark.parametrize("name", ATTACKS)
def test_six_organizations_query(
    name: str,
    world: World,
    control_visitor: Visitor,
    neighbours: Neighbours,
    control: Neighbours,
    until: Callable[[], bool],
) -> None:
    path = f"/traces.json?sql={quote_plus(ATTACKS[name])}"
    attacks = [repeat(world.service.address[1], each, path) for each in world.attackers]
    statuses = attack(world, attacks, control_visitor, neighbours, control, until)
    # Who gets a result, or is told why there is none, does so by our own response.
    assert set(statuses) <= {200, 400, 429, 503}, statuses


def test_six_organizations_do_not_read_their_results(
    world: World,
    control_visitor: Visitor,
    neighbours: Neighbours,
    control: Neighbours,
    until: Callable[[], bool],
) -> None:
    attacks = [leave_unread(world.service.address[1], each) for each in world.attackers]
    attack(world, attacks, control_visitor, neighbours, control, until)


def attack(
    world: World,
    attacks: list[Attack],
    control_visitor: Visitor,
    neighbours: Neighbours,
    control: Neighbours,
    until: Callable[[], bool],
) -> Counter[object]:
    """Let these attack, and return the statuses that they got. Others must get what they want, and the
    service must not grow meanwhile."""
    statuses = Counter[object]()
    failures: list[str] = []

    def visit(_: threading.Event, visitor: Visitor, others: Neighbours) -> None:
        times_ms, failed = request_others(visitor, others.service.address[1], until)
        others.waits.pages_ms += chain.from_iterable(times_ms.values())
        failures.extend(failed)

    works = [partial(each, statuses=statuses) for each in attacks]
    with (
        watching(world.service) as peaks,
        background(*works),
        background(
            partial(visit, visitor=world.other, others=neighbours),
            partial(visit, visitor=control_visitor, others=control),
        ),
    ):
        pass  # until both have ended
    assert failures == []
    assert peaks["memory"] < MOST_MEMORY
    assert peaks["disk"] < MOST_DISK
    return statuses


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


@contextmanager
def watching(service: Service) -> Iterator[Counter[str]]:
    """The most bytes of memory and disk that the service uses more than at the beginning."""
    peaks = Counter[str]()
    before = measure(service)

    def watch(is_over: threading.Event) -> None:
        while not is_over.wait(0.1):
            peaks.update(dict.fromkeys(before, 0))
            for name, size in measure(service).items():
                peaks[name] = max(peaks[name], size - before[name])

    with background(watch):
        yield peaks


def measure(service: Service) -> Counter[str]:
    """Return the bytes of memory and of files, also of those that have no name any more."""
    sizes = Counter(memory=0, disk=0)
    for process in psutil.Process(service.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            sizes["memory"] += process.memory_full_info().uss
            sizes["disk"] += sum(measure_nameless(process.pid))
    for path in service.data_dir.rglob("*"):
        with suppress(FileNotFoundError):
            sizes["disk"] += path.stat().st_size if path.is_file() else 0
    return sizes


def measure_nameless(pid: int) -> Iterator[int]:
    """Yield the sizes of the files that a process has open and that are deleted already."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(link.readlink()).endswith(" (deleted)"):
                yield link.stat().st_size
