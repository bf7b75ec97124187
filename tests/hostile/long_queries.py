"""Hostile queries of six organisations at once, only by the command, for as many seconds as it is told.

Meanwhile a person of another organisation visits pages and asks small queries, as does one of a service
that nobody attacks.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import quote_plus

import psutil
import pytest

from bench.background import background
from bench.filling import fill
from bench.hostile import ATTACKERS, ATTACKS, CALLS, Attack, leave_unread, repeat, request_others
from bench.visitor import Visitor
from store.control.database import ControlDatabase
from tests.hostile.neighbours import AttackedUpstream, Neighbours
from tests.live.service import Service

MEBI = 1 << 20
# Seven query processes at the most, each with a result and what making it took.
MOST_MEMORY = 7 * 85 * MEBI
MOST_DISK = 32 * MEBI


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
