import os
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


def test_without_a_browser_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "apt-get install chromium chromium-driver" in (chromium.why_missing() or "")


def test_a_driver_whose_port_another_process_has_is_started_again(monkeypatch, tmp_path):
    driver = tmp_path / "chromedriver"
    driver.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/starts\n"
        f"test $(wc -l < {tmp_path}/starts) -gt 2 || {{ echo IPv6 port not available.; exit 1; }}\n"
        "echo ChromeDriver was started successfully on port 4711.\nexec sleep 60\n"
    )
    driver.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    monkeypatch.setenv("PATH", environment["PATH"])
    with chromium._run_driver(environment) as port:
        assert port == 4711
    assert processes_of(str(driver)) == []
    monkeypatch.setattr(chromium, "TRIES", 2)
    (tmp_path / "starts").unlink()
    with (
        pytest.raises(AssertionError, match="ended 2 times:\nIPv6"),
        chromium._run_driver(environment),
    ):
        pass


def test_the_browser_without_windows_is_preferred(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("chromium", "chromium-headless-shell"):
        (tmp_path / name).touch(mode=0o755)
        assert chromium._find_browser() == str(tmp_path / name)
