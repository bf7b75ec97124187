"""Completion in shells, each of which runs the script that it is meant for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
# Each sets what was typed, calls the function of the script as the shell does, and prints what it found.
BASH = """
source <(taximeter completion bash)
COMP_WORDS=(taximeter us) COMP_CWORD=1
_taximeter_completion taximeter
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = """
taximeter completion fish | source
complete --do-complete "taximeter us"
"""


def complete(shell: str, script: str) -> list[str]:
    """Return what the shell completes by a script."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - a script of ours
        (shutil.which(shell) or shell, "-c", script),
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = [line.split()[0] for line in done.stdout.splitlines()]
    assert found, done.stderr
    return found


def test_bash_completes_commands():
    assert complete("bash", BASH) == ["usage", "users"]


@pytest.mark.skipif(
    shutil.which("fish") is None, reason="there is no fish; `apt-get install fish` brings it"
)
def test_fish_completes_commands():
    assert complete("fish", FISH) == ["usage", "users"]
