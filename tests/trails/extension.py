"""An extension that comes with the program: a setting, a command and a page of documentation."""

from tests.trails.copies import Copy, Trail

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


def walk(copy: Copy) -> None:
    folder = "extensions/greetings"
    copy.create(f"{folder}/__init__.py", '"""Greetings."""\n')
    copy.create(f"{folder}/plugin.py", PLUGIN)
    copy.create(f"{folder}/commands.py", COMMANDS)


TRAIL = Trail(
    heading="Add an extension",
    walk=walk,
    choices=("runtime/hooks.py", "plugin.py", "extensions/<name>/README.md", "pyproject.toml"),
    unnamed=("extensions/greetings/commands.py",),
    checks={"extensions/greetings/tests/test_walked_extension.py": CHECK},
    tests=("tests/test_architecture.py",),
)
