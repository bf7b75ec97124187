"""Modules that a command loads before it begins."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[3]
SLOW = {"httpx", "pydantic", "jinja2", "starlette", "metering.price_format"}


@pytest.mark.parametrize("module", ["manage.cli.statusline_commands", "manage.cli.up_command"])
def test_nothing_that_is_slow_to_load_and_not_needed_is_loaded(module: str):
    code = f"import sys, manage.cli.main, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, cwd=HERE, capture_output=True, check=True)  # noqa: S603
    names = set(loaded.stdout.decode().split())
    assert module in names
    assert names & SLOW == set()
