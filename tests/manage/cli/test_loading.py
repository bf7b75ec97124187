"""Modules that a command loads before it begins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from manage.cli.main import COMMANDS

HERE = Path(__file__).parents[3]
HTTP = {"httpx", "http.client", "urllib.request"}
SLOW = {"httpx", "pydantic", "jinja2", "starlette", "metering.price_format"}


def load(code: str, *arguments: str, **environment: str) -> set[str]:
    """Return the names of all modules that a program has loaded at its end."""
    program = f"import atexit, sys\natexit.register(lambda: print('\\n', *sys.modules))\n{code}"
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(  # noqa: S603
        command, cwd=HERE, env=os.environ | environment, capture_output=True, check=True
    )
    return set(ended.stdout.decode().splitlines()[-1].split())


@pytest.mark.slow
def test_nothing_that_is_slow_to_load_and_not_needed_is_loaded():
    modules = {"manage.cli.statusline_commands", "manage.cli.up_command"}
    names = load(f"import manage.cli.main, {', '.join(modules)}")
    assert modules <= names
    assert names & SLOW == set()


@pytest.mark.slow
def test_what_sends_requests_is_loaded_for_a_remote_service_alone():
    nouns = ("endpoints", "keys", "budgets", "usage", "sessions", "limits")
    names = load(
        "from manage.cli.main import cli\n"
        "for noun in sys.argv[1:]: cli([noun, '--help'], standalone_mode=False)",
        *nouns,
    )
    assert {"manage.cli.backend_choice", *(COMMANDS[noun] for noun in nouns)} <= names
    assert names & HTTP == set()


def test_help_lists_commands_without_loading_them():
    names = load("from manage.cli.main import cli\ncli()", "--help")
    assert "manage.cli.main" in names
    assert names & (SLOW | set(COMMANDS.values())) == set()


def test_a_shell_completes_the_name_of_a_command_without_loading_one():
    names = load(
        "from manage.cli.main import cli\ncli(prog_name='taximeter')",
        _TAXIMETER_COMPLETE="bash_complete",
        COMP_WORDS="taximeter ",
        COMP_CWORD="1",
    )
    assert "manage.cli.main" in names
    assert names & (SLOW | set(COMMANDS.values())) == set()


EXTENSION = """
import gc
import click
from runtime.hooks import hookimpl

loaded = gc.isenabled()

@click.command()
def look():
    print(loaded, gc.isenabled())

@hookimpl
def commands():
    return {"look": look}
"""


def test_garbage_is_collected_once_the_module_of_a_command_is_loaded(tmp_path):
    (tmp_path / "looking.py").write_text(EXTENSION)
    ran = subprocess.run(
        [sys.executable, "-m", "manage.cli.main", "look"],
        cwd=HERE,
        env={"TAXIMETER_EXTENSIONS": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert ran.stdout.split() == [b"False", b"True"]
