"""What every command shares: options, settings, errors as one line, tables and JSON."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from manage.supervisor import KeepsDyingError, StartError
from store.control import ControlDatabase, ControlError
from store.settings import SETTINGS, Settings, SettingsError

type Command = Callable[..., Any]


def settings_options(command: Command) -> Command:
    """Every setting as an option; what is not given comes from the environment."""
    for setting in reversed(SETTINGS):
        default = f"  [default: {setting.default}]" if setting.default else ""
        command = click.option(
            setting.option, setting.name, metavar="TEXT", help=f"{setting.help}{default}"
        )(command)
    return command


def data_dir_option(command: Command) -> Command:
    return click.option(
        "--data-dir",
        metavar="PATH",
        help="Where the service keeps its data.  [default: TAXIMETER_DATA_DIR or ./data]",
    )(command)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@contextmanager
def explained() -> Iterator[None]:
    """Turn what a person can mend into one line on standard error and exit status 1."""
    try:
        yield
    except (ControlError, SettingsError, StartError, KeepsDyingError) as error:
        raise click.ClickException(str(error)) from error
    except sqlite3.Error as error:
        raise click.ClickException(f"the database cannot be used: {error}") from error
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or 'input/output'}: {error.strerror}"
        ) from error


def read_settings(**given: str | None) -> Settings:
    """Settings from the environment, with the options given before them, and the address that the
    service on this data directory last ran at where nobody names another. Raises SettingsError."""
    environ = make_environ(**given)
    settings = Settings.from_env(environ)
    if not {"TAXIMETER_BASE_URL", "TAXIMETER_LISTEN"} & environ.keys():
        with suppress(OSError, ValueError, KeyError):
            announced = json.loads(_announcement(settings).read_text())
            return Settings.from_env(environ | {"TAXIMETER_BASE_URL": announced["base_url"]})
    return settings


def announce(settings: Settings) -> None:
    """Write down where this service is, for the other commands."""
    _announcement(settings).write_text(json.dumps({"base_url": settings.base_url}))


def _announcement(settings: Settings) -> Path:
    return settings.data_dir / "service.json"


def make_environ(**given: str | None) -> dict[str, str]:
    variables = {setting.name: setting.variable for setting in SETTINGS}
    return os.environ | {variables[name]: text for name, text in given.items() if text is not None}


def open_control(settings: Settings) -> ControlDatabase:
    """Raises ControlError where no service has been set up yet: a typing error in a path must not
    make an empty one."""
    if not settings.control_path.exists():
        raise ControlError(
            f"there is no Taximeter data in {settings.data_dir}; start `taximeter up` once,"
            " or name the right place with --data-dir"
        )
    return ControlDatabase(settings.control_path)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False))


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())
