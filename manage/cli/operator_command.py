"""Commands on the data directory of this machine: their shared options, and printing of results."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from manage.cli.console import (
    Command,
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
)
from runtime.settings import Settings
from store.control.database import ControlDatabase


class DataDirectory:
    """The data directory that a command acts on. It also prints results, as text or as JSON."""

    def __init__(self, settings: Settings, *, as_json: bool) -> None:
        self.settings = settings
        self.as_json = as_json

    def open_control(self) -> ControlDatabase:
        """Open the control database. Raises as ``console.open_control`` does."""
        return open_control(self.settings)

    def print(self, document: Mapping[str, Any], text: str) -> None:
        """Print a result: ``document`` with ``--json``, otherwise ``text``."""
        if self.as_json:
            print_json(document)
        else:
            click.echo(text)


def operator_command(run: Callable[..., None]) -> Command:
    """Turn a function into a command. It gets a ``DataDirectory``, then the values of its own options.

    The command also has ``--data-dir`` and ``--json``. Errors that the user can correct are one line,
    with exit status 1."""

    @wraps(run)
    def command(*, data_dir: str | None, as_json: bool, **options: object) -> None:
        with explained():
            run(DataDirectory(read_settings(data_dir=data_dir), as_json=as_json), **options)

    return data_dir_option(json_option(command))
