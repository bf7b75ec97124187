"""``python -m addon`` as a process."""

import os
import subprocess
import sys

import pytest

from store.control.database import ControlDatabase
from tests import ROOT

MAIN_WITH_ANOTHER_MITMPROXY = """
from dataclasses import replace
from addon import mitmproxy_patches
mitmproxy_patches.EVERY = (replace(mitmproxy_patches.EVERY[-1], digest="0" * 16),)
from addon.__main__ import main
main()
"""


@pytest.mark.live
def test_the_proxy_does_not_start_when_mitmproxy_has_changed_and_says_which_to_install(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
    ended = subprocess.run(  # noqa: S603 - the program under test
        [sys.executable, "-c", MAIN_WITH_ANOTHER_MITMPROXY],
        cwd=ROOT,
        env={"PATH": os.environ.get("PATH", os.defpath), "TAXIMETER_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("taximeter: mitmproxy ")
    assert "NextLayer._next_layer" in ended.stderr
    assert ended.stderr.endswith("install mitmproxy 12.2.3\n")
