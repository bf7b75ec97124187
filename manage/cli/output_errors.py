"""Errors of a command's own output: one line on standard error, and exit status 1."""

import errno
import os
import sys
from contextlib import suppress
from typing import Any

import click


class CommandGroup(click.Group):
    """A group whose commands end quietly on a broken pipe, and with one line on a full disk."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command to the end of its output. Raises SystemExit."""
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                # What is left in the buffer fails here, and not when Python is about to end.
                sys.stdout.flush()
        except OSError as error:
            _discard_output()
            if error.errno != errno.EPIPE:  # whoever read our output has seen enough
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
