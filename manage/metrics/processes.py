"""The processes of the service, read from ``/proc`` of Linux. On other systems the list is empty."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_MODULES = {
    "addon": "proxy",
    "recorder": "recorder",
    "manage.server": "web",
    "dashboard.queries": "queries",
}
_EXTENSIONS = "extensions."  # a process of one has its name


class Process(NamedTuple):
    """A process of the service. ``name`` is the one in its log lines."""

    name: str
    cpu_s: float
    resident_bytes: int
    descriptors: int


def find_processes(supervisor_pid: int, proc: Path = PROC) -> list[Process]:
    """Return the supervisor and its direct children.

    Of several processes with one name only the youngest is returned: a worker that is being replaced
    lives on until its calls end."""
    found: dict[str, tuple[int, Process]] = {}
    with suppress(OSError, ValueError, IndexError):
        found["up"] = _describe(proc / str(supervisor_pid), "up")
    for pid in _list_children(supervisor_pid, proc):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            name = find_name((proc / pid / "cmdline").read_bytes().decode().split("\0"))
            if name is not None:
                described = _describe(proc / pid, name)
                found[name] = max(found.get(name, described), described)
    return [process for _, process in found.values()]


def find_name(command: Sequence[str]) -> str | None:
    """Return the name of a process from its command, or None if it is not of the service."""
    for option, module in pairwise(command):
        if option == "-m":
            if module.startswith(_EXTENSIONS):
                return module.removeprefix(_EXTENSIONS)
            name = _MODULES.get(module)
            if module == "addon" and "--name" in command:
                return command[command.index("--name") + 1]
            return name
    return None


def _list_children(pid: int, proc: Path) -> Iterator[str]:
    threads: list[Path] = []
    with suppress(OSError):
        threads += (proc / str(pid) / "task").iterdir()
    for thread in threads:
        with suppress(OSError):  # it has ended meanwhile
            yield from (thread / "children").read_text().split()


def _describe(folder: Path, name: str) -> tuple[int, Process]:
    """Return the start of a process in clock ticks, and its use of resources.

    Raises OSError, ValueError, IndexError."""
    # The second field is a name in brackets, in which there may be anything.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    user, system, started = int(fields[11]), int(fields[12]), int(fields[19])
    return started, Process(
        name=name,
        cpu_s=(user + system) / os.sysconf("SC_CLK_TCK"),
        resident_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        descriptors=len(os.listdir(folder / "fd")),  # noqa: PTH208 - counted alone
    )
