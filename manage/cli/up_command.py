"""``taximeter up``: runs the service."""

import asyncio
import os
import signal
import sys
from contextlib import closing
from functools import partial

import click

from manage.cli.console import explained, json_option, make_environ, print_json, settings_options
from manage.cli.program import name_commands
from manage.cli.user_commands import make_link
from manage.data_dir import prepare_data_dir
from manage.supervision import run_lock
from manage.supervision.announcement import Announcement
from manage.supervision.supervisor import Supervisor, check_trust_store
from manage.transcripts.files import find_projects, has_transcripts
from runtime.json_lines import format_json_line
from runtime.logs import FORMAT_VARIABLE
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store import migration_status
from store.control.database import ControlDatabase


@click.command()
@settings_options
@json_option
@click.option(
    "--until-unused", is_flag=True, hidden=True,
    help="End when no `taximeter run` uses the service any more.",
)  # fmt: skip
def up(as_json: bool, until_unused: bool, **given: str | None) -> None:
    """Run the service: proxy, recorder and web pages.

    Every option is also an environment variable: --listen is TAXIMETER_LISTEN, and so on.
    Ctrl-C stops it once streams in flight have ended; a second Ctrl-C stops it at once. SIGUSR1
    replaces the processes of the proxy one by one, without failing a call.

    \b
    Examples:
      taximeter up
      taximeter up --listen 0.0.0.0:8080 --base-url https://meter.example.org
      taximeter up --streaming buffered
      taximeter up --log-format json        one JSON object on each line
      taximeter up --json 2>taximeter.log   addresses as JSON; calls go to the log
    """
    environ = make_environ(**given)
    try:
        _run_service(environ, as_json=as_json, until_unused=until_unused)
    except click.ClickException as error:
        if environ.get(FORMAT_VARIABLE, "").strip() != "json":
            raise
        click.echo(format_json_line("up", "error", error.format_message()), err=True)
        sys.exit(error.exit_code)


def _run_service(environ: dict[str, str], *, as_json: bool, until_unused: bool) -> None:
    """Run the service until it is stopped. Raises ClickException."""
    with explained():
        settings = Settings.from_env(environ)
        check_trust_store(environ.get("SSL_CERT_FILE"))
        environ["TAXIMETER_DATA_DIR"] = str(settings.data_dir.absolute())
        if warning := prepare_data_dir(settings.data_dir):
            _warn(settings, f"taximeter: {warning}")
        migration_status.check_all(settings.data_dir)
        if until_unused:
            run_lock.watch(settings.data_dir, partial(os.kill, os.getpid(), signal.SIGTERM))
        asyncio.run(_up(settings, environ, as_json=as_json))


async def _up(settings: Settings, environ: dict[str, str], *, as_json: bool) -> None:
    # Standard output is for the document then; the recorder's lines go where warnings go.
    stdout_fd = sys.stderr.fileno() if as_json else None
    with closing(Supervisor(settings, stdout_fd=stdout_fd)) as supervisor:
        _introduce(supervisor, settings, environ, as_json=as_json)
        await supervisor.run(environ)


def _introduce(
    supervisor: Supervisor, settings: Settings, environ: dict[str, str], *, as_json: bool
) -> None:
    """Do the set-up of a first start, and print the addresses of the service."""
    environ["TAXIMETER_LISTEN"] = str(supervisor.address)
    settings = Settings.from_env(environ)
    Announcement.make(settings, environ).write(settings.data_dir)
    if "web" not in settings.node.parts:  # endpoints and people come from the node that has them
        _greet_node(settings)
        return
    with ControlDatabase(settings.control_path) as control:
        is_first = control.set_up()
        slugs = [each.slug for each in control.list_endpoints(control.get_local_organization().id)]
        # Where mail works, or others may read the log, a link that signs anybody in has no place.
        link = make_link(settings, control) if is_first and settings.prints_links else None
    slug = "default" if "default" in slugs else next(iter(slugs), None)
    endpoint_url = None if slug is None else settings.endpoint_url(slug)
    addresses = {
        "base_url": settings.base_url,
        "endpoint_url": endpoint_url,
        "sign_in_url": link,
    }
    if as_json:
        print_json(addresses)
    elif settings.log_format == "json":
        click.echo(
            format_json_line("up", "info", f"Taximeter is at {settings.base_url}", **addresses)
        )
    else:
        _greet(settings, endpoint_url, link)
        if is_first:
            _offer_history()
    if not settings.listen.is_loopback:
        _warn(
            settings,
            "Anyone who can reach this address can use its proxy endpoints; see SECURITY.md.",
        )
    if settings.smtp_url is None and not settings.is_local:
        _warn(
            settings,
            "E-mail sign-in is off: set TAXIMETER_SMTP_URL and TAXIMETER_MAIL_FROM to turn it on,"
            " as docs/sign-in.md says.",
        )
    sys.stdout.flush()


def _offer_history() -> None:
    """Print how to import transcripts of Claude Code, if there are any. They are never imported unasked."""
    folder = find_projects()
    if has_transcripts(folder):
        click.echo(
            name_commands(
                f"There are sessions of Claude Code in {terminal_line(str(folder))}:"
                " `taximeter import claude-code` imports what they cost.\n"
            )
        )


def _greet_node(settings: Settings) -> None:
    roles = " and ".join(sorted(settings.node.parts))
    text = (
        f"Taximeter, one node of several ({roles}), listens at http://{settings.listen.connectable},"
        f" data in {settings.data_dir.absolute()}"
    )
    is_json = settings.log_format == "json"
    click.echo(format_json_line("up", "info", text) if is_json else text)
    sys.stdout.flush()


def _warn(settings: Settings, text: str) -> None:
    is_json = settings.log_format == "json"
    click.echo(format_json_line("up", "warning", text) if is_json else text, err=True)


def _greet(settings: Settings, endpoint_url: str | None, link: str | None) -> None:
    click.echo(
        f"Taximeter in front of {settings.upstream_url}, data in {settings.data_dir.absolute()}\n"
    )
    if endpoint_url is not None:
        click.echo("Set this where your SDK or Claude Code runs, then use it as before:\n")
        click.echo(f"export ANTHROPIC_BASE_URL={endpoint_url}\n")
    if link is not None:
        click.echo("See what calls cost; this link signs you in once, within 15 minutes:\n")
        click.echo(f"{link}\n")
    else:
        click.echo(f"See what calls cost: {settings.base_url}")
    another = "another link" if link is not None else "a link that signs you in"
    click.echo(name_commands(f"`taximeter users link` prints {another}. Ctrl-C stops Taximeter."))
    click.echo("Each call is printed here when it has ended.\n")
