"""`.ci/suite`, with a project of one test in place of this one."""

import shutil
import subprocess
import sys

import pytest

from tests import ROOT

RUN = f"""#!/usr/bin/env bash
shift
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
exec {sys.executable} -m pytest -p xdist.plugin --rootdir . "$@"
"""
FIRST_RUN_ONLY = """
from pathlib import Path

def test_that_had_no_time():
    tried = Path(__file__).with_suffix(".tried")
    has_time = tried.exists()
    tried.touch()
    assert has_time
"""
ALWAYS = "def test_that_fails(): assert not 1"
NEVER = "def test_that_passes(): pass"


@pytest.fixture
def run(tmp_path):
    def run(content, *options):
        (tmp_path / "test_one.py").write_text(content)
        script = tmp_path / ".ci" / "suite"
        script.parent.mkdir()
        shutil.copy(ROOT / ".ci" / "suite", script)
        entry = tmp_path / "run.sh"
        entry.write_text(RUN)
        entry.chmod(0o755)
        return subprocess.run(  # noqa: S603 - our own
            [script, *options], capture_output=True, text=True, check=False, timeout=60
        )

    return run


def test_what_fails_beside_the_others_and_passes_alone_passes_and_is_named(run):
    done = run(FIRST_RUN_ONLY)
    assert done.returncode == 0, done.stdout
    assert "test_one.py::test_that_had_no_time PASSED" in done.stdout
    assert "passed only when repeated" in done.stderr


def test_what_fails_alone_too_fails(run):
    done = run(FIRST_RUN_ONLY + ALWAYS)
    assert done.returncode == 1
    assert "passed only when repeated" not in done.stderr


def test_what_passes_is_not_repeated(run):
    done = run(NEVER)
    assert done.returncode == 0
    assert done.stdout.count("test session starts") == 1
    assert "repeated" not in done.stderr


def test_a_run_that_ends_with_an_error_and_without_a_failed_test_fails(run):
    done = run(NEVER, "--no-such-option")
    assert done.returncode not in (0, 1)
