from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.browser import chromium


def processes_of(folder: str) -> list[str]:
    """Every process that has to do with this folder, whoever its parent is now."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = " ".join(process.info["cmdline"] or [])
        if folder in command and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(command)
    return found


@contextmanager
def failing_test(profiles: list[str]) -> Iterator[None]:
    before = set(psutil.Process().children())
    with chromium.run_chromium():
        for process in set(psutil.Process().children()) - before:
            named = [each for each in process.cmdline() if each.startswith("--user-data-dir=")]
            profiles.extend(each.partition("=")[2] for each in named)
        assert len(processes_of(profiles[0])) > 1
        yield


@pytest.mark.skipif(chromium.why_missing() is not None, reason=str(chromium.why_missing()))
def test_nothing_is_left_of_a_browser_whose_test_fails():
    profiles: list[str] = []
    with pytest.raises(ZeroDivisionError), failing_test(profiles):
        raise ZeroDivisionError
    assert processes_of(profiles[0]) == []
    assert not Path(profiles[0]).parent.exists()
