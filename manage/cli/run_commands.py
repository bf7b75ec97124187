"""``taximeter run``: start a client whose calls go through Taximeter, and print what they cost."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import click
import httpx

from manage.api import endpoint_operations, run_operations
from manage.api.run_operations import Run
from manage.api.usage_operations import UsageTotals
from manage.claude_code.starting import starting
from manage.claude_code.variables import BASE_URL
from manage.cli.backend import Backend
from manage.cli.backend_choice import find_remote, open_backend
from manage.cli.client_process import ClientError, check_client, run_client
from manage.cli.console import explained, read_settings, service_options
from manage.cli.endpoint_slugs import list_slugs
from manage.cli.forward_proxy import find_route, run_by_proxy
from manage.cli.program import name_commands, without_name
from manage.cli.remote import is_loopback
from manage.cli.run_attributes import Wishes, attribute_options, begin_run, find_attributes
from manage.cli.terminal import format_amount, make_table
from manage.cli.usage_cells import describe_open_costs, make_cells, name_group
from manage.http_client import load_trust_store
from manage.supervision.run_service import RunService
from metering.formats import format_calls
from runtime.runs import append_run, new_run_id
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store.control.endpoints import make_not_found

RECORDING_S, POLL_S = 10.0, 0.2
PROBE_S = 10.0
DEFAULT_SLUG = "default"
WITHOUT_BASE_URL = "The client may not use ANTHROPIC_BASE_URL, or have a setting of its own for it."


class Place(Protocol):
    """A service that clients can use. ``address`` is for clients, ``base_url`` for people.

    ``settings`` is None for a remote service. ``is_running``: the service goes on after ``close``."""

    address: str
    base_url: str

    @property
    def settings(self) -> Settings | None: ...

    @property
    def is_running(self) -> bool: ...

    def close(self) -> None: ...


class RemotePlace:
    """A remote service, which a run neither starts nor stops."""

    is_running = True
    settings = None

    def __init__(self, base_url: str) -> None:
        self.address = self.base_url = base_url

    def close(self) -> None:
        pass


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENTS]...")
@click.option(
    "--endpoint", "slug", metavar="SLUG",
    help="The proxy endpoint to use.  [default: default, or the only one]",
)  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print the summary as one JSON document, the last line of standard error.",
)  # fmt: skip
@click.option(
    "--forward-proxy", is_flag=True,
    help="Let the client come through HTTPS_PROXY, for one whose base URL cannot or should not be set.",
)  # fmt: skip
@attribute_options
@click.option(
    "--first-party/--no-first-party",
    default=True,
    help="Have Claude Code make its calls as without a proxy, if they go to its vendor's API.  [default: yes]",
)
@service_options
@click.pass_context
def run(
    context: click.Context,
    /,
    command: tuple[str, ...],
    slug: str | None,
    as_json: bool,
    forward_proxy: bool,
    base_url: str | None,
    data_dir: str | None,
    *,
    first_party: bool,
    **wishes: Any,
) -> None:
    """Run a client through Taximeter, and print what it cost.

    Starts COMMAND with ANTHROPIC_BASE_URL set to the proxy endpoint, and with
    CLAUDE_CODE_GATEWAY_HINT_HEADERS=1, so that Claude Code names its prompts and compactions. If
    no service runs on the data directory, one runs until COMMAND has ended; its settings come from
    the environment, and it writes to run.log in the data directory.

    A COMMAND whose name is claude has these variables in --settings too, merged with its own, since
    its settings files beat the environment. Managed settings beat both, and are named. If calls
    go to https://api.anthropic.com, two variables make Claude Code call as without a proxy:
    _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1 and ENABLE_TOOL_SEARCH=true. They are not set if
    either is set already, nor with --no-first-party. docs/clients.md says what they change.

    COMMAND has the terminal and standard output to itself. The summary is on standard error. The
    exit status is COMMAND's; 128 + n if signal n ended it, 127 if there is no such command.

    The base URL names the run (…/proxy/SLUG/run/ID), which distinguishes its calls from others,
    also from those of a run at the same time; the column run_id has it. Calls of a client that does
    not use ANTHROPIC_BASE_URL are not seen, as with another API provider; nor are those that it
    makes after its end in the background.

    With --forward-proxy COMMAND gets HTTPS_PROXY and a certificate authority of this run instead.
    Only connections to the upstream's host are decrypted, and only its message calls are recorded;
    see docs/forward-proxy.md.

    The calls are recorded for the project that the origin of the git repository names, and for the
    user, project and tags given here, unless the client names others in headers. An endpoint that
    keeps metadata only keeps none of these options.

    \b
    Examples:
      taximeter run claude
      taximeter run --user ann --tag env:dev --with-branch claude
      taximeter run --endpoint team-blue -- claude -p "Explain this repository"
      taximeter run --json python agent.py 2>agent.log  ends with the summary
      taximeter run --base-url https://meter.example.org claude
      taximeter run --forward-proxy claude
    """
    if not command:
        raise click.UsageError("name the client to run, as in: taximeter run claude")
    try:
        check_client(command[0])
        wanted = Wishes(**wishes)
        folder = _find_folder()
        attributes = find_attributes(wanted, folder)
        with (
            explained(),
            closing(_open_place(base_url, data_dir)) as place,
            open_backend(base_url, data_dir, running=place.settings) as backend,
        ):
            found = choose_slug(list_slugs(backend), slug)
            run_id = new_run_id()
            url = append_run(f"{place.address}/proxy/{found}", run_id)
            _check_address(url)
            begun = begin_run(
                backend, run_id, found, attributes, _print_line, is_stated=wanted.is_stated
            )
            environ, why_none = without_name(os.environ), WITHOUT_BASE_URL
            if forward_proxy:
                upstream_url = backend.call(endpoint_operations.get_endpoint, found).upstream_url
                route = find_route(upstream_url, url, found)
                status, why_none = run_by_proxy(command, environ, folder, route, _print_client_line)
            else:
                _warn_of_other_address(os.environ)
                as_direct = first_party and begun is not None and begun.is_first_party
                with starting(
                    command, environ, folder, url, _print_client_line, as_direct=as_direct
                ) as start:
                    status = run_client(start.command, start.environ)
            place.close()
            _print_summary(place, backend, run_id, why_none, as_json=as_json)
    except ClientError as error:
        _print_line(str(error))
        context.exit(error.status)
    context.exit(status)


def choose_slug(slugs: Sequence[str], wanted: str | None) -> str:
    """Return ``wanted``, the slug "default", or the only slug there is.

    Raises NotFoundError if ``wanted`` does not exist, ClickException if there is no slug, UsageError
    if there are several."""
    if wanted is not None:
        if wanted not in slugs:
            raise make_not_found(wanted, slugs)
        return wanted
    if DEFAULT_SLUG in slugs:
        return DEFAULT_SLUG
    if not slugs:
        raise click.ClickException(
            name_commands(
                "there is no proxy endpoint; `taximeter endpoints create NAME` creates one"
            )
        )
    if len(slugs) > 1:
        raise click.UsageError(f"choose a proxy endpoint with --endpoint: {', '.join(slugs)}")
    return slugs[0]


def _find_folder() -> Path:
    """Return the current folder; if it was removed, its former path from the environment."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.environ.get("PWD", os.sep))


def _open_place(base_url: str | None, data_dir: str | None) -> Place:
    remote = find_remote(base_url, data_dir)
    if remote is not None:
        return RemotePlace(remote)
    return RunService(read_settings(data_dir=data_dir), os.environ, _print_line)


def _check_address(url: str) -> None:
    """Raise ClickException unless ``url`` responds with 200."""
    try:
        response = httpx.head(
            url,
            timeout=PROBE_S,
            verify=load_trust_store(),
            trust_env=not is_loopback(url),
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise click.ClickException(
            f"{url} cannot be reached: {terminal_line(str(error))}"
        ) from error
    if response.status_code != 200:
        raise click.ClickException(
            f"{url} responds with {response.status_code}: the service there is not Taximeter, or is of an"
            " earlier version"
        )


def _warn_of_other_address(environ: Mapping[str, str]) -> None:
    before = environ.get(BASE_URL, "")
    if before and "/proxy/" not in before:
        _print_line(
            f"{BASE_URL} was {terminal_line(before)}; this run does not use it. Where calls go is set"
            " by the service's TAXIMETER_UPSTREAM_URL."
        )


def _print_summary(
    place: Place, backend: Backend, run_id: str, why_none: str, *, as_json: bool
) -> None:
    """Print what the run cost, or why it may have had no calls. Errors are printed, never raised.

    The client has ended by then, and no error may change its exit status."""
    try:
        with explained():
            totals = _wait_for_calls(backend, run_id)
    except click.ClickException as error:
        _print_line(f"the cost of the run is not known: {error.format_message()}")
        return
    if as_json:
        click.echo(json.dumps(totals.model_dump(mode="json", by_alias=True)), err=True)
        return
    for line in describe_run(totals, place.base_url, why_none, is_running=place.is_running):
        click.echo(line, err=True)


def _wait_for_calls(backend: Backend, run_id: str) -> Run:
    """Return the totals of a run once no call is pending, or those known after ``RECORDING_S``."""
    deadline_s = time.monotonic() + RECORDING_S
    totals = backend.call(run_operations.get_run, run_id)
    while totals.pending and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        totals = backend.call(run_operations.get_run, run_id)
    return totals


def _print_client_line(text: str) -> None:
    _print_line(terminal_line(text))


def _print_line(text: str) -> None:
    click.echo(f"taximeter: {text}", err=True)


def describe_run(
    run: Run, base_url: str, why_none: str = WITHOUT_BASE_URL, *, is_running: bool
) -> list[str]:
    """Return lines with the totals of a run. ``is_running``: the service still runs, so pages can be
    opened."""
    totals = run.totals
    lines = [""]
    if not totals.calls and not run.pending:
        lines.append(f"taximeter: no calls were made in this run. {why_none}")
        return lines
    lines.append(f"taximeter: {format_calls(totals.calls)}, {_format_total(totals)}")
    lines += describe_attributes(run)
    if totals.calls:
        headings, cells = make_cells(run.models)
        rows = [
            (name_group(each, "model"), *counts)
            for each, counts in zip(run.models, cells, strict=True)
        ]
        lines += make_table(("MODEL", *headings), rows, right=headings)
    lines += describe_open_costs(totals)
    if run.pending:
        lines.append(f"{format_calls(run.pending)} not recorded yet, not in the totals.")
    page = f"{base_url}/traces/usage?run_id={run.run_id}"
    start = "" if is_running else name_commands("`taximeter up`, then ")
    lines.append(f"Each call: {start}{page}")
    return lines


def describe_attributes(run: Run) -> list[str]:
    """Return a line with user, project and tags of a run; an empty list if it has none."""
    named = [
        f"{name} {value}" for name, value in (("user", run.user), ("project", run.project)) if value
    ]
    if run.tags:
        named.append(f"tagged {', '.join(run.tags)}")
    return (
        [f"Recorded for {terminal_line(', '.join(named))}, but where the client named others."]
        if named
        else []
    )


def _format_total(totals: UsageTotals) -> str:
    cost = format_amount(totals.cost_cents)
    if not totals.estimated_cents:
        return cost
    return f"{cost}, of which {format_amount(totals.estimated_cents)} estimated"
