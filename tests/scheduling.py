"""Workers share the tests by whole files, and all that need the browser as if they were one file.

So there is one browser, with one service and one example organisation, however many workers there are.
There is one worker more than processors, since tests of running services wait a tenth of their time.
"""

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # has no types
    """Whole files, and the folder of the browser's tests."""

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return BROWSER if path.startswith(BROWSER) else path


@pytest.hookimpl(optionalhook=True)  # where xdist is left out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Return one worker more than there would be, unless tests of running services are left out."""
    workers = yield
    return workers if "not live" in config.option.markexpr else workers + 1
