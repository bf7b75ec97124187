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
                # Write what is buffered now: Python would report an error at its exit as a traceback.
                sys.stdout.flush()
        except OSError as error:
            _discard_output()
            if (
                error.errno != errno.EPIPE
            ):  # the reader has closed the pipe on purpose, as head does
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
