"""An extension that comes with the program: a setting, a command and a page of documentation."""

import pytest

HEADING = "Add an extension"

PLUGIN = '''"""The hooks of greetings."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.hooks import hookimpl
from runtime.setting import Setting

GREETING = Setting("greeting", "hello", str, "What is said.")


@hookimpl
def settings() -> Mapping[str, Sequence[Setting[Any]]]:
    return {"Greetings": (GREETING,)}


@hookimpl
def commands() -> Mapping[str, str]:
    return {"greet": "extensions.greetings.commands"}
'''
COMMANDS = '''"""``taximeter greet``."""

import click

from extensions.greetings.plugin import GREETING
from manage.cli.console import explained, read_settings


@click.command()
def greet() -> None:
    """Greet, as TAXIMETER_GREETING says.

    \\b
    Examples:
      taximeter greet
    """
    with explained():
        click.echo(read_settings().of(GREETING))
'''
CHECK = """
from click.testing import CliRunner

from manage.cli.main import cli
from tests import ROOT


def test_it_is_a_command_with_a_setting_that_is_documented(monkeypatch):
    monkeypatch.setenv("TAXIMETER_GREETING", "good morning")
    assert CliRunner().invoke(cli, ["greet"]).output == "good morning\\n"
    assert "TAXIMETER_GREETING" in (ROOT / "docs" / "settings.md").read_text()
    assert "taximeter greet" in (ROOT / "docs" / "cli.md").read_text()
"""


@pytest.mark.slow
def test_the_trail(copy):
    folder = "extensions/greetings"
    copy.create(f"{folder}/__init__.py", '"""Greetings."""\n')
    copy.create(f"{folder}/plugin.py", PLUGIN)
    # What a trail does not name one by one: the rest of the code, tests and documentation.
    copy.check_named(
        HEADING,
        choices=("runtime/hooks.py", "plugin.py", "extensions/<name>/README.md", "pyproject.toml"),
    )
    copy.create(f"{folder}/commands.py", COMMANDS)
    copy.create(f"{folder}/tests/test_walked.py", CHECK)
    copy.generate()
    copy.run_tests(f"{folder}/tests/test_walked.py", "tests/test_architecture.py")
