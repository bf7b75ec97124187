"""Parts that all commands share: options, settings, error messages, JSON.

What only some need is elsewhere, since each import makes every command slower, and the service too."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from manage.cli.program import name_commands
from manage.cli.terminal import can_print
from manage.supervision.announcement import Announcement, is_running
from metering.price_file_error import PriceFileError
from runtime.errors import ChildError, ControlError, StartError
from runtime.safe_text import terminal_line, terminal_lines
from runtime.settings import Settings, SettingsError, list_settings
from store import migration_status
from store.control.database import ControlDatabase
from store.copies import find_copies

BASE_URL_VARIABLE = "TAXIMETER_BASE_URL"
UPSTREAM_VARIABLES = frozenset({"TAXIMETER_UPSTREAM_URL", "TAXIMETER_UPSTREAMS"})
API_KEY_VARIABLE = "TAXIMETER_API_KEY"

type Command = Callable[..., Any]


class BackendError(Exception):
    """The backend failed, whatever the operation. The message says what to do."""


def settings_options(command: Command) -> Command:
    """Add an option for every setting of the service; its default comes from the environment."""
    for setting in reversed(list_settings()):
        default = f"  [default: {setting.default}]" if setting.default else ""
        command = click.option(
            setting.option, setting.name, metavar="TEXT", help=f"{setting.help}{default}"
        )(command)
    return command


def data_dir_option(command: Command) -> Command:
    return click.option(
        "--data-dir",
        metavar="PATH",
        help="The data directory of the service.  [default: TAXIMETER_DATA_DIR, else the one that `taximeter doctor` names]",
    )(command)


def service_options(command: Command) -> Command:
    """Add the options of a command that acts on this machine or on a remote service."""
    command = data_dir_option(command)
    return click.option(
        "--base-url",
        metavar="URL",
        help=f"Use the service at this address, with the key in {API_KEY_VARIABLE}.",
    )(command)


_ADDRESS_VARIABLES = {BASE_URL_VARIABLE, "TAXIMETER_LISTEN"}

user_option = click.option(
    "--user",
    metavar="EMAIL",
    help="Act as this user instead of the local one. Only on the machine with the data.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors that the user can correct into one line on standard error and exit status 1."""
    try:
        yield
    except (
        ControlError,
        SettingsError,
        PriceFileError,
        StartError,
        ChildError,
        BackendError,
    ) as error:
        raise click.ClickException(terminal_lines(name_commands(str(error)))) from error
    except sqlite3.Error as error:
        raise click.ClickException(
            f"the database cannot be used: {terminal_line(str(error))}"
        ) from error
    except UnicodeEncodeError as error:
        raise click.ClickException("an argument is not valid UTF-8") from error
    except OSError as error:
        if error.filename is None:  # our own output, which CommandGroup speaks of
            raise
        raise click.ClickException(
            f"{terminal_line(str(error.filename))}: {error.strerror}"
        ) from error


def read_settings(**given: str | None) -> Settings:
    """Return the settings from the environment, overridden by the options in ``given``.

    If no base URL is set, it is the last one of the service on this data directory; if no upstreams
    are set, they are those of the running service. Raises SettingsError."""
    environ = make_environ(**given)
    settings = Settings.from_env(environ)
    runs = is_running(settings.data_dir)
    # The announcement of a running service outranks TAXIMETER_LISTEN; that of an ended one does not.
    said_otherwise = {BASE_URL_VARIABLE} if runs else _ADDRESS_VARIABLES
    is_address_said = bool(said_otherwise & environ.keys())
    left_open = UPSTREAM_VARIABLES - environ.keys() if runs else frozenset()
    if is_address_said and not left_open:
        return settings
    announced = Announcement.read(settings.data_dir)
    if announced is None:
        return settings
    taken = {} if is_address_said else {BASE_URL_VARIABLE: announced.base_url}
    taken |= {name: announced.variables[name] for name in left_open & announced.variables.keys()}
    return Settings.from_env({**taken, **environ})


def make_environ(**given: str | None) -> dict[str, str]:
    variables = {setting.name: setting.variable for setting in list_settings()}
    return os.environ | {variables[name]: text for name, text in given.items() if text is not None}


def check_there_is_data(settings: Settings) -> None:
    """Raise ControlError unless the data directory has been set up.

    A typing error in its path must not create an empty directory, nor look like one without calls."""
    if not settings.control_path.exists():
        raise ControlError(
            f"there is no Taximeter data in {settings.data_dir.absolute()}; start `taximeter up` once,"
            " or name the right directory with --data-dir"
        )


def tell_of_other_nodes(settings: Settings) -> None:
    """Print on which other nodes a command that works on local files has to be run too, if there are any."""
    copies = find_copies(settings.data_dir)
    others = None if copies is None else copies.list_others()
    if others:
        names = ", ".join(others)
        click.echo(
            terminal_line(
                f"This is about the files of this node. Run it too on the other nodes that keep calls: {names}."
            ),
            err=True,
        )


def open_control(settings: Settings) -> ControlDatabase:
    """Open the control database. Raises ControlError if no service has been set up yet.

    Raises EarlierVersionError if trace databases have the schema of an earlier version."""
    check_there_is_data(settings)
    migration_status.check_all(settings.data_dir)
    return ControlDatabase(settings.control_path)


def print_json(document: Any) -> None:
    text = json.dumps(document, ensure_ascii=False)
    click.echo(text if can_print(text) else json.dumps(document))
