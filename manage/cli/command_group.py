"""The group of all commands: it imports a command when that is called, and handles output that fails.

An error while writing the command's own output is one line on standard error, and exit status 1."""

import ast
import errno
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from manage.cli.program import CALLED_AS, find_name


class CommandGroup(click.Group):
    """A group whose commands end quietly on a broken pipe, and with one line on a full disk.

    ``modules`` maps the name of a command to the module that has a function of that name. It is
    imported when the command is called, since importing all modules takes longer than the start of the
    service. Lists of commands, in the help and for shells, are therefore made of the docstrings in the source
    files.
    ``find_others`` returns more commands by name; it is called to list all commands, or for a name that
    is in no other place."""

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str],
        find_others: Callable[[], Mapping[str, click.Command]] = dict,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules
        self._find_others = cache(find_others)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._modules, *self._find_others()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name) or self._find_others().get(cmd_name)
        module = import_module(self._modules[cmd_name])
        command: click.Command = getattr(module, _name_function(cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for the help."""
        self._describe().format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, or the options of the group, that begin with ``incomplete``."""
        described = sorted(self._describe().commands.items())
        return [
            CompletionItem(name, help=command.get_short_help_str())
            for name, command in described
            if name.startswith(incomplete) and not command.hidden
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def _describe(self) -> click.Group:
        """Return a group of all commands, of which those in modules have nothing but their help."""
        described = {
            name: click.Command(name, help=_read_docstring(module, _name_function(name)))
            for name, module in self._modules.items()
        }
        return click.Group(commands={**self._find_others(), **self.commands, **described})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command, the command, and the other arguments.

        Raises NoSuchCommand, which suggests commands with a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # Click looks among those that are not in modules
            known = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and flush its output. Raises SystemExit."""
        if CALLED_AS in os.environ:
            kwargs["prog_name"] = find_name()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                # Write what is buffered now: Python would report an error at its exit as a traceback.
                sys.stdout.flush()
        except OSError as error:
            _discard_output()
            # A reader that has closed the pipe did so on purpose, as head does.
            if error.errno != errno.EPIPE:
                what = error.filename or "standard output"
                with suppress(OSError):
                    click.echo(f"Error: {what}: {error.strerror}", err=True)
            sys.exit(1)


def _name_function(command: str) -> str:
    return f"{command}_" if iskeyword(command) else command.replace("-", "_")


def _read_docstring(module: str, function: str) -> str | None:
    """Return the docstring of a function of a module, read from its source. Raises OSError."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    tree = ast.parse(Path(spec.origin).read_bytes())
    found = (each for each in tree.body if isinstance(each, ast.FunctionDef))
    return next((ast.get_docstring(each) for each in found if each.name == function), None)


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that Python does not try again to write it at exit."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
