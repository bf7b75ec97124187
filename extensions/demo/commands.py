"""``taximeter demo``: the program with example data, to try it before using it."""

import asyncio
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import click
import httpx

from extensions.demo.library import read_table
from extensions.demo.live import make_calls
from extensions.demo.upstream import DemoUpstream
from manage.cli.console import explained, json_option, print_json
from manage.cli.key_presses import calling_on_enter, can_press
from manage.cli.parameters import Amount
from manage.cli.user_commands import make_link
from manage.data_dir import prepare_data_dir
from manage.supervision.announcement import Announcement
from manage.supervision.run_service import choose_listen
from manage.supervision.supervisor import Supervisor
from runtime import clock
from runtime.errors import StartError
from runtime.safe_text import terminal_line
from runtime.setting_values import parse_listen
from runtime.settings import Settings, list_settings
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users

START_S, HEALTH_POLL_S = 60.0, 0.1
CLAUDE_CODE = "claude-code"  # the endpoint whose URL is printed
# Imported when the link has been printed: that takes half a second.
HISTORY = "extensions.demo.history"
_LISTEN, _DATA_DIR, _UPSTREAM, _WORKERS = (
    "TAXIMETER_LISTEN",
    "TAXIMETER_DATA_DIR",
    "TAXIMETER_UPSTREAM_URL",
    "TAXIMETER_WORKERS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    base_url: str
    endpoint_url: str
    sign_in_url: str
    data_dir: str


def _check_listen(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> str | None:
    """Return the address unchanged. Raises BadParameter, since an error of the settings would name the
    variable."""
    try:
        if text is not None:
            parse_listen(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", context, parameter) from error
    return text


@click.command()
@click.option(
    "--listen",
    callback=_check_listen,
    metavar="HOST:PORT",
    help="The address to listen on.  [default: 127.0.0.1:8080, or any free port]",
)
@click.option(
    "--keep", "folder", metavar="PATH", type=click.Path(path_type=Path),
    help="Keep the data in this directory, which must be new or empty.  [default: a temporary one]",
)  # fmt: skip
@click.option(
    "--pace", type=Amount("a pace", "0 or 1", min=0), default=1.0, hidden=True, help="0: at once."
)
@json_option
def demo(listen: str | None, folder: Path | None, pace: float, as_json: bool) -> None:
    """Try Taximeter with example data. No credential is needed.

    Runs the whole program on a data directory of its own, with a scripted upstream in place of the
    real one. The calls of two weeks are there already. Example clients make some thirty more through
    it: a coding agent with subagents, a cache break, failures and retries, a refusal, streams that
    are cut, a subscription, rate limits, a model without a price. Open the link that it prints; Enter
    prints another one, and the page for signing in has a button for whoever is at this machine.

    It runs until Ctrl-C, then removes its data unless --keep names a directory for it. Settings in
    the environment are ignored.

    \b
    Examples:
      taximeter demo
      taximeter demo --keep ./demo-data   for `usage --data-dir ./demo-data`
      taximeter demo --json 2>demo.log    addresses as JSON; calls go to the log
    """
    with explained(), _data_dir(folder) as data_dir:
        upstream = DemoUpstream(pace)
        with upstream.serving() as upstream_url:
            environ = make_environ(os.environ, data_dir, upstream_url, listen)
            asyncio.run(_demo(upstream, environ, pace, as_json=as_json))
    if folder is not None:
        click.echo(f"The data is in {terminal_line(str(folder))}.", err=True)


def make_environ(
    environ: Mapping[str, str], data_dir: Path, upstream_url: str, listen: str | None
) -> dict[str, str]:
    """Return the environment of the demo's service, without the user's own settings.

    Those may be of a service that others use. Raises SettingsError."""
    ours = {setting.variable for setting in list_settings()}
    kept = {name: text for name, text in environ.items() if name not in ours}
    chosen = {} if listen is None else {_LISTEN: listen}
    settings = Settings.from_env(chosen)
    return {
        **kept,
        _LISTEN: choose_listen(settings, chosen),
        _DATA_DIR: str(data_dir),
        _UPSTREAM: upstream_url,
        _WORKERS: "1",
    }


@contextmanager
def _data_dir(folder: Path | None) -> Iterator[Path]:
    """Yield an empty data directory. Raises StartError, OSError."""
    if folder is None:
        # A process of the service may still write a file while the directory is removed.
        with tempfile.TemporaryDirectory(
            prefix="taximeter-demo-", ignore_cleanup_errors=True
        ) as made:
            yield Path(made)
        return
    if folder.exists() and any(folder.iterdir()):
        raise StartError(f"{folder.absolute()} is not empty: the demo uses a directory of its own")
    prepare_data_dir(folder)
    yield folder.absolute()


async def _demo(
    upstream: DemoUpstream, environ: dict[str, str], pace: float, *, as_json: bool
) -> None:
    stdout_fd = sys.stderr.fileno() if as_json else None
    with closing(
        Supervisor(Settings.from_env(environ), stdout_fd=stdout_fd, is_demo=True)
    ) as supervisor:
        environ[_LISTEN] = str(supervisor.address)
        settings = Settings.from_env(environ)
        _greet(_set_up(settings, environ), as_json=as_json)
        import_module(HISTORY).record(settings, clock.now())
        calls = asyncio.create_task(_make_calls(upstream, settings, pace))
        try:
            with calling_on_enter(partial(_print_link, settings)):
                await supervisor.run(environ)
        finally:
            calls.cancel()


def _set_up(settings: Settings, environ: Mapping[str, str]) -> Addresses:
    Announcement.make(settings, environ).write(settings.data_dir)
    with ControlDatabase(settings.control_path) as control:
        control.set_up()
        set_up_organization(Management.make(control, settings), Users(control))
        link = make_link(settings, control)
    return Addresses(
        base_url=settings.base_url,
        endpoint_url=settings.endpoint_url(CLAUDE_CODE),
        sign_in_url=link,
        data_dir=str(settings.data_dir),
    )


def set_up_organization(management: Management, users: Users) -> None:
    """Create endpoints, budgets, people and a key, in addition to what a first start creates.

    Raises ControlError."""
    caller = management.local_caller()
    table = read_table("organization")
    for each in table["endpoints"]:
        metadata_only = each.get("metadata_only", False)
        management.create_endpoint(
            caller, each["name"], each["slug"], None, metadata_only=metadata_only
        )
    for budget in table["budgets"]:
        management.budgets.put(caller, budget.get("endpoint"), **budget["limit"])
    users.create(table["colleague"], join=caller.organization_id)
    management.invite(caller, table["invited"])
    management.create_key(caller, table["key"])


async def _make_calls(upstream: DemoUpstream, settings: Settings, pace: float) -> None:
    try:
        await _wait_until_healthy(settings)
        await make_calls(upstream, settings.endpoint_url, pace)
    except httpx.HTTPError as error:
        # The service goes on, so that the calls made so far can be looked at.
        _print_line(f"the example calls failed: {terminal_line(str(error))}")
    else:
        _print_line("the example calls are complete. Press Ctrl-C to end the demo.")


async def _wait_until_healthy(settings: Settings) -> None:
    url = f"http://{settings.listen.connectable}/healthz"
    async with httpx.AsyncClient(trust_env=False, timeout=START_S) as client:
        while (await client.get(url)).status_code != 200:
            await asyncio.sleep(HEALTH_POLL_S)


def _greet(addresses: Addresses, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(addresses))
    else:
        click.echo("Taximeter with example data: no call leaves this machine.\n")
        click.echo("Open this link; it signs you in once, within 15 minutes:\n")
        click.echo(f"{addresses.sign_in_url}\n")
        another = "Enter prints another link. " if can_press(sys.stdin) else ""
        click.echo(f"{another}Each call is printed here when it has ended. Ctrl-C ends the demo.\n")
    sys.stdout.flush()


def _print_link(settings: Settings) -> None:
    try:
        with ControlDatabase(settings.control_path) as control:
            link = make_link(settings, control)
    except sqlite3.Error as error:
        _print_line(f"no link could be made: {terminal_line(str(error))}. Press Enter again.")
    else:
        _print_line(f"this link signs you in once, within 15 minutes: {link}")


def _print_line(text: str) -> None:
    click.echo(f"taximeter: {text}", err=True)
