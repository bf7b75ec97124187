"""``taximeter``: noun then verb. Commands are thin: read the options, call, print.

Exit status 0, 1 (refused or not found), 2 (usage)."""

import asyncio
import sys

import click

from manage.console import explained, make_environ, settings_options
from manage.endpoint_commands import endpoints
from manage.maintenance_commands import prune, reprice, verify
from manage.pages import endpoint_url
from manage.supervisor import Supervisor
from store.control import ControlDatabase, ProxyEndpoint
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
        click.echo(f"export ANTHROPIC_BASE_URL={endpoint_url(settings, slug)}\n")
    if not settings.listen.is_loopback:
        click.echo("Anyone who can reach this address can use its proxy endpoints.", err=True)
    sys.stdout.flush()
    await supervisor.run(environ)
    click.echo("Stopped.")


for command in (endpoints, verify, reprice, prune):
    cli.add_command(command)

if __name__ == "__main__":
    cli()
