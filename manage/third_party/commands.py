"""Commands that third-party extensions add to ``taximeter``."""

import os
from importlib import import_module
from pathlib import Path

import click
import pluggy

from manage.third_party.finding import ExtensionError, Found, find, register
from runtime import hooks
from runtime.safe_text import terminal_line

FOLDER_VARIABLE = "TAXIMETER_EXTENSIONS"


def find_commands() -> dict[str, click.Command]:
    """Return the commands of all third-party extensions, by name.

    An extension that cannot be loaded, or raises, is left out with a line on standard error."""
    folder = os.environ.get(FOLDER_VARIABLE, "").strip()
    commands: dict[str, click.Command] = {}
    for found in find(Path(folder) if folder else None):
        try:
            commands |= _load_commands(found)
        except (Exception, SystemExit) as error:
            text = f"The extension {found.name} is left out: {type(error).__name__}: {error}"
            click.echo(terminal_line(text), err=True)
    return commands


def _load_commands(found: Found) -> dict[str, click.Command]:
    """Return the commands of an extension by name. Raises ExtensionError, and what the extension raises."""
    manager = pluggy.PluginManager(hooks.NAME)
    manager.add_hookspecs(hooks)
    register(manager, found)
    commands = {}
    for name, given in (pair for each in manager.hook.commands() for pair in each.items()):
        command = getattr(import_module(given), name) if isinstance(given, str) else given
        if not isinstance(command, click.Command):
            raise ExtensionError(f"the command {name} is no Click command")
        commands[name] = command
    return commands
