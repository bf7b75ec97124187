"""Running the programme: the service that it breaks, and the cases that are possible on this machine."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.control import open_control
from tests.faults.scene import Case, Needs, Scene
from tests.live.service import Service
from tests.small_disk import CannotMountError, mounted
from tests.upstream import Upstream

DISK_MB = 400
FAKETIME = "faketime/libfaketimeMT.so.1"
SETTINGS = {
    "WORKERS": "2",
    "DISK_RESERVE": "100KB",
    "DRAIN_SECONDS": "5",
    "UPSTREAM_TIMEOUT": "connect=20,first_byte=40,idle=40",  # held calls are not overdue
}


class MissingError(Exception):
    """The lack of what a case needs on this machine. The message says how to get it."""


class FaultService(Service):
    """A service whose root is no root: without the capability to write to read-only folders."""

    program = (
        *(("setpriv", "--bounding-set", "-dac_override") if os.geteuid() == 0 else ()),
        *Service.program,
    )


@contextmanager
def open_scene(
    folder: Path,
    rate: float,
    lasts_s: float,
    needs: Needs | None = None,
    *,
    with_control: bool = False,
) -> Iterator[Scene]:
    """Start a service and its load, paused, and perhaps another to compare with. Raises MissingError."""
    settings, clock_file = dict(SETTINGS), None
    if needs == "clock":
        clock_file = folder / "clock"
        clock_file.write_text("+0")
    with ExitStack() as stack:
        place = stack.enter_context(_mounted(folder)) if needs == "small disk" else folder
        up = stack.enter_context(Upstream())
        service = FaultService(place, up.url, **settings)
        if clock_file is not None:
            service.environment |= make_clock_environ(clock_file)
        stack.enter_context(service)
        control = None
        if with_control:
            control = stack.enter_context(open_control(folder / "control", rate, **SETTINGS))
        scene = Scene(service, up, rate, lasts_s, clock_file=clock_file, control=control)
        yield stack.enter_context(scene)


def choose(cases: Sequence[Case], needs: Needs | None) -> list[Case]:
    """Return the cases that take what this service has, and no more."""
    return [case for case in cases if case.needs == needs]


@contextmanager
def _mounted(folder: Path) -> Iterator[Path]:
    """Mount a small file system. Raises MissingError."""
    place = folder / "disk"
    place.mkdir()
    with ExitStack() as stack:
        try:
            stack.enter_context(mounted(place, DISK_MB))
        except CannotMountError as error:
            raise MissingError(f"{error}") from error
        yield place


def make_clock_environ(clock_file: Path) -> dict[str, str]:
    """Return the variables that give the wall clock of a service an offset, which a file has.

    Raises MissingError."""
    found = next(Path("/usr/lib").glob(f"*/{FAKETIME}"), None)
    if found is None:
        raise MissingError("there is no libfaketime; apt-get install libfaketime brings it")
    return {
        "LD_PRELOAD": str(found),
        "FAKETIME_TIMESTAMP_FILE": str(clock_file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def is_possible(case: Case) -> bool:
    """Return whether root can be kept from writing here, where a case needs that."""
    return case.needs is not None or os.geteuid() != 0 or shutil.which("setpriv") is not None
