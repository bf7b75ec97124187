"""The processes of a service, their descriptors and their memory, by what each process does."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.live.service import Service

MOST_FDS = 20


@dataclass(frozen=True, slots=True)
class Usage:
    """The memory of their own in MB and the descriptors of the processes of a service."""

    memory_mb: Mapping[str, float]
    descriptors: Mapping[str, int]

    @property
    def total_mb(self) -> float:
        return sum(self.memory_mb.values())

    @property
    def total_descriptors(self) -> int:
        return sum(self.descriptors.values())


def measure(service: Service) -> Usage:
    """Return what the processes use now."""
    memory, descriptors = {}, {}
    for name, process in _name_processes(service).items():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            memory_mb = process.memory_full_info().uss / 1e6
            memory[name], descriptors[name] = memory_mb, process.num_fds()
    return Usage(memory, descriptors)


def has_begun(service: Service, query_processes: int) -> bool:
    """Return whether all query processes are there and wait for requests, as each does from then on.

    They begin after the service is healthy, so what it uses before is not yet what it needs."""
    pids = service.query_pids()
    return len(pids) >= query_processes and all(map(_waits_for_events, pids))


def _waits_for_events(pid: int) -> bool:
    with suppress(OSError):
        return any(
            "eventpoll" in str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()
        )
    return False


def _name_processes(service: Service) -> dict[str, psutil.Process]:
    pids = {"up": service.pid}
    pids |= {name: pid for name, pid in service.pids().items() if name != "proxy"}
    pids |= {f"proxy {place}": pid for place, pid in enumerate(sorted(service.worker_pids()), 1)}
    pids |= {f"query process {place}": pid for place, pid in enumerate(service.query_pids(), 1)}
    found = {}
    for name, pid in pids.items():
        with suppress(psutil.NoSuchProcess):
            found[name] = psutil.Process(pid)
    return found


def find_growth(before: Usage, after: Usage, may_keep_mb: float) -> list[str]:
    """Return what a service uses more than before, beyond what caches and connections may, and which
    process has most of it."""
    found = []
    if after.total_descriptors > before.total_descriptors + MOST_FDS:
        more = after.total_descriptors - before.total_descriptors
        name = _name_most(before.descriptors, after.descriptors)
        found.append(f"{more} more descriptors than before, most of them of {name}")
    if after.total_mb > before.total_mb + may_keep_mb:
        name = _name_most(before.memory_mb, after.memory_mb)
        more_mb = after.memory_mb[name] - before.memory_mb.get(name, 0.0)
        total_mb = after.total_mb - before.total_mb
        found.append(f"{total_mb:.0f} MB more than before, {more_mb:.0f} of them {name}'s")
    return found


def _name_most(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    return max(after, key=lambda name: after[name] - before.get(name, 0))
