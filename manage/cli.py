"""``taximeter``: noun then verb. Commands are thin: read the options, call, print.

Exit status 0, 1 (refused or not found), 2 (usage)."""

import asyncio
import sys

import click

from manage.console import announce, explained, make_environ, settings_options
from manage.endpoint_commands import endpoints
from manage.maintenance_commands import prune, reprice, verify
from manage.supervisor import Supervisor
from manage.user_commands import make_link, users
from store.control import ControlDatabase
from store.settings import Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="taximeter", prog_name="taximeter")
def cli() -> None:
    """A transparent proxy in front of the messages API that writes down what every call cost.

    \b
    Start here:
      taximeter up                          run the service
      taximeter endpoints create "My team"  make another proxy endpoint
    """


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
        asyncio.run(_up(settings, environ))


async def _up(settings: Settings, environ: dict[str, str]) -> None:
    supervisor = Supervisor(settings)
    environ["TAXIMETER_LISTEN"] = str(supervisor.address)
    settings = Settings.from_env(environ)
    announce(settings)
    with ControlDatabase(settings.control_path) as control:
        is_first = control.set_up()
        endpoints = control.list_endpoints(control.get_local_organization().id)
        link = make_link(settings, control) if is_first else None
    click.echo(f"Taximeter in front of {settings.upstream_url}, data in {settings.data_dir}\n")
    if endpoints:
        slug = "default" if "default" in {e.slug for e in endpoints} else endpoints[0].slug
        click.echo(
            f"Connect a client:\n\nexport ANTHROPIC_BASE_URL={settings.endpoint_url(slug)}\n"
        )
    click.echo(f"Pages: {link or settings.base_url}")
    if link is not None:
        click.echo(
            "This link signs you in once, for 15 minutes; `taximeter users link` prints another."
        )
    if not settings.listen.is_loopback:
        click.echo("Anyone who can reach this address can use its proxy endpoints.", err=True)
    sys.stdout.flush()
    await supervisor.run(environ)
    click.echo("Stopped.")


for command in (endpoints, users, verify, reprice, prune):
    cli.add_command(command)

if __name__ == "__main__":
    cli()
