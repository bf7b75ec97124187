"""``python -m addon`` as a process."""

import gc
import os
import subprocess
import sys
from collections import deque

import pytest

from addon.__main__ import COLLECTIONS
from runtime.installing import MITMPROXY_TRIED
from store.control.database import ControlDatabase
from tests import ROOT

MAIN_WITH_ANOTHER_MITMPROXY = """
from dataclasses import replace
from addon.__main__ import main
from addon import mitmproxy_patches
mitmproxy_patches.OF_SERVICE = (replace(mitmproxy_patches.OF_SERVICE[-1], digest="0" * 16),)
main()
"""


@pytest.mark.live
def test_the_proxy_does_not_start_when_mitmproxy_has_changed_and_says_which_to_install(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
    ended = subprocess.run(  # noqa: S603 - the program under test
        [sys.executable, "-c", MAIN_WITH_ANOTHER_MITMPROXY],
        check=False,
        cwd=ROOT,
        env={"PATH": os.environ.get("PATH", os.defpath), "TAXIMETER_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("taximeter: mitmproxy ")
    assert "ReverseInstance.listen" in ended.stderr
    assert ended.stderr.endswith(f"pip install '{MITMPROXY_TRIED}'\n")


def test_connections_that_come_and_go_are_not_collected_all_at_once():
    """Each collection stops all others. Here 300 connections are open, and each leaves 100 objects."""
    collected = []

    def note(phase, details):
        if phase == "stop":
            collected.append(details["collected"])

    usual = gc.get_threshold()
    gc.freeze()
    gc.collect()
    gc.set_threshold(*COLLECTIONS)
    gc.callbacks.append(note)
    try:
        connections: deque[list[object]] = deque(maxlen=300)
        for _ in range(6_000):
            connection: list[object] = [[] for _ in range(100)]
            connection.append(connection)
            connections.append(connection)
    finally:
        # What is frozen stays so: most of it is all the tests, and is frozen from the start.
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)
    assert sum(collected) > 400_000
    assert max(collected) < 50_000
