"""Settings of all tests: the place of their files, the making of examples, the order of files."""

import gc
import os
import shutil
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.migrated_files",
    "tests.pip_index",
    "tests.scheduling",
    "tests.steady_clock",
]

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder in it that is the user's own
ROOM_BYTES = 2 * 1024**3

NICENESS = os.getpriority(os.PRIO_PROCESS, 0)

# How long an example takes, to be made or tried, says more about the machine than about the code. Each run
# draws others, so that half as many as usual find as much in twice the runs.
settings.register_profile(
    "suite",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    print_blob=True,
)
# For ``./run.sh test --quick``: the search for examples is a tenth of what it would take by itself.
settings.register_profile("quick", settings.get_profile("suite"), max_examples=10)
settings.load_profile("suite")


# A shell lets what it starts with `&` ignore Ctrl-C, and so would every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does the same for a hangup. With a handler the suite still lives on, and what it starts has none.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _signal, _frame: None)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory where there is room: SQLite waits for the disk at each commit.
    What is imported and collected is no garbage, so it is not looked for until all of it is there."""
    gc.disable()
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


# What a test asks for says what it starts.
MARKED_BY_FIXTURES = {
    "redis_server": pytest.mark.live,
    "shared_service": pytest.mark.live,
    "app": pytest.mark.served,
    "make_person": pytest.mark.served,
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by the fixtures that it asks for, itself or through others."""
    for name, mark in MARKED_BY_FIXTURES.items():
        if name in getattr(item, "fixturenames", ()):
            item.add_marker(mark)


@pytest.hookimpl(trylast=True)  # after those that mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let several workers begin with the long files, so that none of them is left for the end."""
    if hasattr(config, "workerinput"):
        long_files = {item.path for item in items if _is_long(item)}
        items.sort(key=lambda item: item.path not in long_files)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Let no test lower the priority of its own process, which no later one could raise again: on a busy
    machine those after it, with all that they start, took ten times as long."""
    yield
    if os.getpriority(os.PRIO_PROCESS, 0) != NICENESS:
        pytest.fail("this test lowered the priority of its own process")


def _is_long(item: pytest.Item) -> bool:
    """Return whether a test is in a file, or in a group of files, that takes many seconds."""
    waits = any(item.get_closest_marker(name) for name in ("live", "browser"))
    return waits or item.nodeid.startswith(("tests/test_", "tests/trails/"))


def pytest_collection_finish() -> None:
    """Keep the collector of garbage away from what lasts until the end: thousands of tests. To look for
    garbage among them would take half a second of each worker, and as often as usual three times as long
    as this."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
