"""Workers share the tests by whole files, and all that need the browser as if they were one file.

So there is one browser, with one service and one example organisation, however many workers there are."""

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
