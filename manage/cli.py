"""``taximeter``: noun then verb. Thin: read the options, call, print.

Exit status 0, 1 (refused or not found), 2 (usage)."""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from manage.pages import endpoint_url
from manage.supervisor import KeepsDyingError, StartError, Supervisor
from store import clock
from store.control import ControlDatabase, ControlError, ProxyEndpoint
from store.settings import SETTINGS, Address, Settings, SettingsError, Streaming

type Command = Callable[..., Any]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="taximeter", prog_name="taximeter")
def cli() -> None:
    """A transparent proxy in front of the messages API that writes down what every call cost.

    \b
    Start here:
      taximeter up                          run the service
      taximeter endpoints create "My team"  make another proxy endpoint
    """


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
    """Settings from the environment, with the options given before them. Raises SettingsError."""
    return Settings.from_env(make_environ(**given))


def make_environ(**given: str | None) -> dict[str, str]:
    variables = {setting.name: setting.variable for setting in SETTINGS}
    return os.environ | {variables[name]: text for name, text in given.items() if text is not None}


@cli.command()
@settings_options
def up(**given: str | None) -> None:
    """Run the service: proxy, recorder and web pages.

    Every option is also an environment variable: --listen is TAXIMETER_LISTEN, and so on.
    Ctrl-C stops it once streams in flight have ended; a second Ctrl-C stops it at once.

    \b
    Examples:
      taximeter up
      taximeter up --listen 0.0.0.0:8080 --base-url https://meter.example.org
      taximeter up --streaming buffered
    """
    environ = make_environ(**given)
    with explained():
        settings = Settings.from_env(environ)
        environ["TAXIMETER_DATA_DIR"] = str(settings.data_dir.absolute())
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ControlDatabase(settings.control_path) as control:
            control.set_up()
            organization = control.get_local_organization()
            endpoints = control.list_endpoints(organization.id)
        asyncio.run(_up(settings, environ, endpoints))


async def _up(settings: Settings, environ: dict[str, str], endpoints: list[ProxyEndpoint]) -> None:
    supervisor = Supervisor(settings)
    environ["TAXIMETER_LISTEN"] = str(supervisor.address)
    settings = Settings.from_env(environ)
    click.echo(f"Taximeter in front of {settings.upstream_url}, data in {settings.data_dir}")
    click.echo(f"Pages: {settings.base_url}/    Stop: Ctrl-C")
    if endpoints:
        slug = "default" if "default" in {e.slug for e in endpoints} else endpoints[0].slug
        click.echo("\nConnect a client:\n")
        click.echo(f"  export ANTHROPIC_BASE_URL={endpoint_url(settings, slug)}\n")
    if not _address(settings).is_loopback:
        click.echo("Anyone who can reach this address can use its proxy endpoints.", err=True)
    sys.stdout.flush()
    await supervisor.run(environ)
    click.echo("Stopped.")


def _address(settings: Settings) -> Address:
    return settings.listen


@cli.group()
def endpoints() -> None:
    """Proxy endpoints: each has a slug, and a URL that clients use as their base URL."""


@endpoints.command("list")
@data_dir_option
@json_option
def list_endpoints(data_dir: str | None, as_json: bool) -> None:
    """List the proxy endpoints, newest first."""
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            found = control.list_endpoints(control.get_local_organization().id)
    items = [endpoint_json(settings, endpoint) for endpoint in found]
    if as_json:
        print_json({"items": items, "nextCursor": None, "hasMore": False})
        return
    print_table(
        ("SLUG", "NAME", "STREAMING", "CREATED", "URL"),
        [
            (
                endpoint.slug,
                endpoint.name,
                endpoint.streaming or f"{settings.streaming} (service)",
                clock.parse_instant(endpoint.created_at).astimezone().strftime("%Y-%m-%d %H:%M"),
                item["url"],
            )
            for endpoint, item in zip(found, items, strict=True)
        ],
    )


@endpoints.command("create")
@click.argument("name")
@click.option("--slug", help="Choose the slug yourself; else it is made from the name.")
@click.option(
    "--streaming", type=click.Choice(["live", "buffered"]), help="Instead of the service's."
)
@click.option("--metadata-only", is_flag=True, help="Keep no bodies, only counts, cost and times.")
@data_dir_option
@json_option
def create_endpoint(
    name: str,
    slug: str | None,
    streaming: Streaming | None,
    metadata_only: bool,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Create a proxy endpoint. It works at once, also while the service runs.

    \b
    Examples:
      taximeter endpoints create "Café #1"              gets the slug cafe-1
      taximeter endpoints create CI --slug ci-nightly
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            endpoint = control.create_endpoint(
                control.get_local_organization().id,
                name,
                slug,
                streaming,
                metadata_only=metadata_only,
            )
    item = endpoint_json(settings, endpoint)
    if as_json:
        print_json(item)
        return
    click.echo(
        f"Created {endpoint.slug}. Connect a client:\n\n  export ANTHROPIC_BASE_URL={item['url']}"
    )


@endpoints.command("delete")
@click.argument("endpoint")
@data_dir_option
@json_option
def delete_endpoint(endpoint: str, data_dir: str | None, as_json: bool) -> None:
    """Delete a proxy endpoint by its slug or id. Its traces stay; its slug stays reserved."""
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            deleted = control.delete_endpoint(control.get_local_organization().id, endpoint)
    if as_json:
        print_json({"ok": True})
        return
    click.echo(f"Deleted {deleted.slug}.")


def open_control(settings: Settings) -> ControlDatabase:
    """Raises ControlError where no service has been set up yet: a typing error in a path must not
    make an empty one."""
    if not settings.control_path.exists():
        raise ControlError(
            f"there is no Taximeter data in {settings.data_dir}; start `taximeter up` once,"
            " or name the right place with --data-dir"
        )
    return ControlDatabase(settings.control_path)


def endpoint_json(settings: Settings, endpoint: ProxyEndpoint) -> dict[str, Any]:
    """The API's fields of a proxy endpoint."""
    return {
        "id": endpoint.id,
        "name": endpoint.name,
        "slug": endpoint.slug,
        "url": endpoint_url(settings, endpoint.slug),
        "created_at": clock.format_seconds(clock.parse_instant(endpoint.created_at)),
        "streaming": endpoint.streaming,
        "metadata_only": endpoint.metadata_only,
    }


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False))


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


if __name__ == "__main__":
    cli()
