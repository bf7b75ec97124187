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


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("fish", FISH)])
def test_a_shell_completes_commands(shell, script):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}; apt-get install {shell} brings it")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - a script of ours
        (program, "-c", script),
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["usage", "users"], done.stderr
