"""Workers share the tests by whole files, and those that share a browser or a service as one file.

So there is one browser, with one service and one example organisation, however many workers there are.
There is one worker more than processors, since tests of running services wait a tenth of their time.
"""

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

SHARED = "tests/live/"
"""The tests of the shared service (tests/live/conftest.py): all live ones but those below."""
OTHERS = (
    "tests/test_",  # which parse the sources
    "tests/browser/",
    "tests/hostile/",
    "tests/live/lives/",
    "tests/live/organizations/",
    "tests/live/test_demo.py",
    "tests/live/test_full_disk.py",
    "tests/live/test_mitmdump.py",
    "tests/live/test_recorded.py",
    "tests/live/test_workers.py",
)


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # has no types
    """Whole files, and folders of tests that have a browser or a service together."""

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return next((each for each in (*OTHERS, SHARED) if path.startswith(each)), path)


@pytest.hookimpl(optionalhook=True)  # where xdist is left out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Return one worker more than there would be, unless tests of running services are left out."""
    workers = yield
    return workers if "not live" in config.option.markexpr else workers + 1
