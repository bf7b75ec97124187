"""The group of all commands: it imports a command when that is called, and ends well without output.

Errors of a command's own output are one line on standard error, and exit status 1."""

import errno
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from manage.cli.program import CALLED_AS, find_name


class CommandGroup(click.Group):
    """A group whose commands end quietly on a broken pipe, and with one line on a full disk.

    ``modules`` names the module of each command that is not added otherwise. In it the command's
    function has the command's name. All of them together take longer to import than the service to
    start. ``find_others`` returns further ones, where all are listed or one is unknown."""

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
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(self._modules[cmd_name]), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command, the command, and the other arguments. Raises
        NoSuchCommand, which suggests those with a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # Click looks among those that are not in modules
            known = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command to the end of its output. Raises SystemExit."""
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


def _discard_output() -> None:
    """Let Python end without trying again to write what could not be written."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
