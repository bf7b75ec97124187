"""``taximeter doctor|verify|reprice|prune``: maintenance, also while the service runs."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import click

from manage.cli.console import (
    check_there_is_data,
    data_dir_option,
    explained,
    json_option,
    make_environ,
    print_json,
    read_settings,
    tell_of_other_nodes,
)
from manage.cli.operator_command import DataDirectory, operator_command
from manage.cli.parameters import Age, Size
from manage.cli.program import name_commands
from manage.cli.terminal import format_text
from manage.doctor.checks import examine
from manage.doctor.findings import Finding
from manage.supervision.announcement import Announcement, find_running
from metering.formats import format_bytes, format_calls
from runtime import clock
from runtime.errors import ControlError
from runtime.safe_text import terminal_line
from runtime.setting_values import parse_optional_path
from runtime.settings import Settings, SettingsError
from store.price_file import load_prices
from store.traces.calls.reprice import reprice as reprice_entries
from store.traces.database import TraceDatabase
from store.traces.paths import find_trace_files

_DATA_DIR = "TAXIMETER_DATA_DIR"
DEFAULT_SLUG = "default"
_VERDICT_WIDTH, _CHECK_WIDTH = 5, 11


def _open_traces(settings: Settings) -> Iterator[tuple[str, TraceDatabase]]:
    """Yield each organisation on this machine with its database. Raises ControlError when there is none."""
    tell_of_other_nodes(settings)
    found = find_trace_files(settings.data_dir)
    if not found:
        check_there_is_data(settings)
        raise ControlError(f"nothing has been recorded in {settings.data_dir} yet")
    for path in found:
        with closing(TraceDatabase(path)) as database:
            yield path.parent.name, database


@click.command()
@click.option(
    "--echo",
    is_flag=True,
    help="Also run a proxy with these settings before an upstream of our own, and compare every byte.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Also count tokens of a request directly and through the service, with the key in ANTHROPIC_API_KEY.",
)
@click.option(
    "--slug",
    metavar="SLUG",
    help=f"The proxy endpoint that --live uses.  [default: {DEFAULT_SLUG}]",
)
@data_dir_option
@json_option
def doctor(echo: bool, live: bool, slug: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check the service and its machine, and print what to do.

    Checks the service that runs on this data directory, with that service's settings. If none runs,
    it checks what a service started in this environment would use, and says so. Of several nodes it
    checks this one. Checks Python, the data directory, disk space, the databases, the spool, whether
    the upstream can be reached (by a connection alone: no request is sent), the prices, the clock, and
    the variables of Claude Code in this environment and its settings files, whose values are not
    printed. It changes nothing. Exit status 1 when anything is wrong.

    --echo proves that nothing is changed on the way: it starts another proxy with the service's
    settings, sends requests as real clients do, and compares both ends: bytes, headers, when each
    event of a stream came, and what is recorded. --live compares what upstream responds directly and
    through the running service. Counting tokens is free and is not recorded.

    \b
    Examples:
      taximeter doctor
      taximeter doctor --data-dir /srv/taximeter
      taximeter doctor --echo --live
      taximeter doctor --json | jq '.checks[] | select(.verdict == "wrong")'
    """
    if slug is not None and not live:
        raise click.UsageError("--slug is the proxy endpoint of --live: add --live")
    findings: list[Finding] = []
    with explained():
        for finding in _examine(data_dir, echo, (slug or DEFAULT_SLUG) if live else None):
            findings.append(finding)
            if not as_json:
                click.echo(_format_finding(finding))
    ok = all(finding.verdict != "wrong" for finding in findings)
    if as_json:
        print_json({"ok": ok, "checks": [asdict(finding) for finding in findings]})
    if not ok:
        raise SystemExit(1)


def _examine(data_dir: str | None, echo: bool, live_slug: str | None) -> Iterator[Finding]:
    environ = make_environ(data_dir=data_dir)
    folder = Settings.from_env({_DATA_DIR: environ.get(_DATA_DIR, "")}).data_dir
    service = _find_service(folder)
    try:
        settings = read_settings(data_dir=data_dir) if service is None else service.settings(folder)
    except SettingsError as error:
        yield Finding("settings", "wrong", str(error), "set this variable right, or unset it")
        return
    yield from examine(settings, service, echo=echo, live_slug=live_slug)


def _find_service(folder: Path) -> Announcement | None:
    """Return the announcement of the running service, whatever the settings of this environment are."""
    try:
        return find_running(folder)
    except OSError:
        return None  # the check of the service reports why


def _format_finding(finding: Finding) -> str:
    verdict = finding.verdict.ljust(_VERDICT_WIDTH)
    advice = f". {finding.advice[:1].upper()}{finding.advice[1:]}." if finding.advice else ""
    check = finding.check.ljust(_CHECK_WIDTH)
    return terminal_line(name_commands(f"{verdict}  {check}  {finding.message}{advice}"))


@click.command()
@operator_command
def verify(place: DataDirectory) -> None:
    """Check that recorded bodies are intact and that costs add up.

    Rebuilds each body and compares it with the hash stored when it was received. Computes each cost
    again from its line items, and the hourly sums of the hours whose calls are all there. Also checks
    the databases.
    It can run while the service runs. Of several nodes it checks the files of this one: run it
    on each node that keeps calls. Exit status 1 when anything is wrong.

    \b
    Examples:
      taximeter verify
      taximeter verify --json | jq .problems
    """
    problems: list[dict[str, str | None]] = []
    entries = 0
    for organization_id, database in _open_traces(place.settings):
        entries += database.count_entries()
        for problem in database.verify():
            item = {
                "organization_id": organization_id,
                "entry_id": problem.entry_id,
                "message": problem.message,
            }
            problems.append(item)
            if not place.as_json:
                click.echo("  ".join(map(format_text, item.values())))
    if place.as_json:
        print_json({"ok": not problems, "entries": entries, "problems": problems})
    elif not problems:
        click.echo(f"All bodies of {format_calls(entries)} are intact, and costs and sums add up.")
    if problems:
        raise SystemExit(1)


@click.command()
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Price every call again, not only those without a cost.",
)
@click.option(
    "--prices", metavar="PATH", help="The operator's price file.  [default: TAXIMETER_PRICES]"
)
@operator_command
def reprice(place: DataDirectory, everything: bool, prices: str | None) -> None:
    """Price calls, managed sessions and dreams without a cost.

    A price is found if it was not known when the call was recorded, and is known now. If there are
    several nodes, run this on each node that keeps calls: it prices the calls of that node.

    \b
    Examples:
      taximeter reprice
      taximeter reprice --all --prices prices.toml    after correcting a price
    """
    changed = 0
    path = place.settings.prices if prices is None else parse_optional_path(prices)
    table = load_prices(path, may_be_pipe=True)
    for _, database in _open_traces(place.settings):
        changed += reprice_entries(database, table, everything=everything)
    place.print({"repriced": changed}, f"Changed the cost of {format_calls(changed)}.")


@click.command()
@click.option(
    "--older-than",
    type=Age(),
    metavar="DAYS",
    help="Remove calls older than this, as in 30d.",
)
@click.option(
    "--larger-than",
    type=Size(),
    metavar="SIZE",
    help="Remove the oldest calls of each organisation until its database fits.",
)
@operator_command
def prune(place: DataDirectory, older_than: timedelta | None, larger_than: int | None) -> None:
    """Remove the oldest recorded calls and free their space. Hourly totals are kept.

    It can run while the service runs. Of several nodes it removes calls that this one keeps: run
    it on each node that keeps calls, or set rules with `taximeter retention`, which hold on all of them.

    \b
    Examples:
      taximeter prune --older-than 90d
      taximeter prune --larger-than 20GB
    """
    if older_than is None and larger_than is None:
        raise click.UsageError(
            "choose what to remove: --older-than 90d, --larger-than 20GB, or both"
        )
    before = None if older_than is None else clock.format_ms(clock.now() - older_than)
    entries = freed = 0
    for _, database in _open_traces(place.settings):
        result = database.prune(before=before, max_bytes=larger_than)
        entries += result.entries
        freed += result.bytes_before - result.bytes_after
    place.print(
        {"entries": entries, "bytes_freed": freed},
        f"Removed {format_calls(entries)}; {format_bytes(freed)} freed.",
    )
