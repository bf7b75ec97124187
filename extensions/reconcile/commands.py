"""``taximeter reconcile``: compares upstream's own reports with recorded usage."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, timedelta
from functools import partial

import click

from extensions.reconcile.admin_api import AdminApi
from extensions.reconcile.admin_key import VARIABLE, ReportError, read_admin_key
from extensions.reconcile.analytics import BETA, fetch_analytics
from extensions.reconcile.causes import (
    describe_kind,
    format_cause,
    get_explanation,
    get_title,
)
from extensions.reconcile.comparison import Cause, Comparison, Figures, Row, compare
from extensions.reconcile.operations import get_recorded_usage
from extensions.reconcile.reports import fetch_reports
from extensions.reconcile.result_file import (
    Reconciliation,
    make_document,
    write_reconciliation,
)
from manage.cli.backend import Backend, given
from manage.cli.backend_choice import find_caller, open_local
from manage.cli.console import print_json, user_option
from manage.cli.operator_command import DataDirectory, operator_command
from manage.cli.parameters import Whole
from manage.cli.periods import Day
from manage.cli.remote import is_exposed, is_loopback
from manage.cli.terminal import format_cost, format_count, format_text, print_table
from metering.formats import format_cents_change, format_count_change
from runtime import clock
from runtime.safe_text import terminal_line
from runtime.settings import Settings, SettingsError

DEFAULT_DAYS, MAX_DAYS = 7, 366
# Upstream's figures are there 5 minutes after a call, at times later.
_SETTLED_AFTER = timedelta(hours=1)
_ONE_DAY = timedelta(days=1)
_COSTS = ("REPORTED", "RECORDED", "DIFFERENCE")
_COUNTS = ("TOKENS REPORTED", "RECORDED", "DIFFERENCE")


@click.command()
@click.option(
    "--days", type=Whole(1, MAX_DAYS, example=DEFAULT_DAYS), metavar="N",
    help=f"How many days (UTC), the last of which is --to.  [default: {DEFAULT_DAYS}]",
)  # fmt: skip
@click.option("--from", "from_day", type=Day(), metavar="DAY", help="The first day (UTC).")
@click.option(
    "--to", "to_day", type=Day(), metavar="DAY",
    help="The last day (UTC), included.  [default: yesterday]",
)  # fmt: skip
@click.option(
    "--analytics", is_flag=True,
    help="Take upstream's analytics reports (beta), which have list prices and products.",
)  # fmt: skip
@user_option
@click.option(
    "--admin-url", metavar="URL",
    help="The address that reports are fetched from.  [default: TAXIMETER_UPSTREAM_URL]",
)  # fmt: skip
@operator_command
def reconcile(
    place: DataDirectory,
    days: int | None,
    from_day: date | None,
    to_day: date | None,
    analytics: bool,
    user: str | None,
    admin_url: str | None,
) -> None:
    """Compare upstream's reports with what was recorded.

    Fetches the usage and the cost report of the upstream organisation with the Admin API key in
    ANTHROPIC_ADMIN_KEY, and prints for each day and model what upstream reports, what was recorded in
    your organisation, the difference, and its likely causes. With --analytics a key with the scope
    read:analytics does. The key is sent to the upstream and kept nowhere. Days are UTC. The page
    /reconciliation shows the last result.

    \b
    Examples:
      taximeter reconcile                                  the 7 days before today
      taximeter reconcile --from 2026-01-01 --to 2026-01-31
      taximeter reconcile --analytics                      with list prices
      taximeter reconcile --days 30 --json | jq '.difference.cost_cents'
    """
    first, last = find_period(days, from_day, to_day, clock.now().date())
    settings = place.settings
    with place.open_control() as control, ExitStack() as stack:
        caller = find_caller(settings, control, user)
        backend = open_local(stack, settings, control, caller)
        try:
            result = _reconcile(settings, backend, admin_url, first, last, analytics)
        except ReportError as error:
            raise click.ClickException(terminal_line(str(error))) from None
    write_reconciliation(settings.data_dir, caller.organization_id, result)
    if place.as_json:
        print_json(make_document(result))
    else:
        _print(result)


def find_period(
    days: int | None, from_day: date | None, to_day: date | None, today: date
) -> tuple[date, date]:
    """Return the first and the last day of the period that the options name. Raises click.UsageError."""
    if days is not None and from_day is not None:
        raise click.UsageError("--days and --from exclude each other")
    last = max(today - _ONE_DAY, from_day or date.min) if to_day is None else to_day
    try:
        first = from_day or last - _ONE_DAY * ((days or DEFAULT_DAYS) - 1)
    except OverflowError:
        first = date.min
    if last > today:
        raise click.UsageError(f"--to {last} has not come yet; today is {today} (UTC)")
    if first > last:
        raise click.UsageError(f"the period ends ({last}) before it begins ({first})")
    if (last - first).days >= MAX_DAYS:
        raise click.UsageError(f"a period has at most {MAX_DAYS} days")
    return first, last


def _reconcile(
    settings: Settings,
    backend: Backend,
    admin_url: str | None,
    first: date,
    last: date,
    analytics: bool,
) -> Reconciliation:
    """Fetch the reports, read the recorded usage, and compare both.

    Raises ReportError, SettingsError, and what ``Backend.call`` raises."""
    admin_key = read_admin_key(analytics=analytics)
    url = _check_url(settings, admin_url)
    click.echo(f"Fetching the reports of {first} to {last} from {url} …", err=True)
    now = clock.now()
    fetch = fetch_analytics if analytics else fetch_reports
    with AdminApi(
        url,
        admin_key,
        settings.vendor,
        beta=BETA if analytics else None,
        is_local=is_loopback(url),
        tell=partial(click.echo, err=True),
    ) as api:
        reports = fetch(api, first, last)
    recorded = backend.call(
        get_recorded_usage,
        **given(from_day=first, to_day=last, upstream_organization_id=reports.organization_id),
    )
    notes = list(recorded.notes)
    if reports.missing_days:
        notes.append(Cause(name="missing_days", days=reports.missing_days))
    return Reconciliation(
        fetched_at=clock.format_seconds(now),
        upstream_url=url,
        upstream_organization_id=reports.organization_id,
        from_day=first,
        to_day=last,
        comparison=compare(
            reports.items,
            recorded.items,
            open_day=min(now - _SETTLED_AFTER, reports.refreshed_at or now).date(),
            notes=notes,
        ),
        analytics=analytics,
    )


def _check_url(settings: Settings, admin_url: str | None) -> str:
    """Return the URL that the key is sent to. Raises SettingsError, ReportError."""
    upstream = settings.upstream_url
    if admin_url is not None:
        try:
            upstream = Settings.from_env({"TAXIMETER_UPSTREAM_URL": admin_url}).upstream_url
        except SettingsError as error:
            raise SettingsError(
                str(error).replace("TAXIMETER_UPSTREAM_URL=", "--admin-url ")
            ) from None
    if is_exposed(str(upstream)):
        raise ReportError(
            f"{upstream} has no TLS, so the key in {VARIABLE} could be read on its way; name an"
            " https address with --admin-url"
        )
    return str(upstream)


def _print(result: Reconciliation) -> None:
    comparison = result.comparison
    total = ("TOTAL", "", *_cells(comparison.reported, comparison.recorded), "")
    print_table(
        ("DAY (UTC)", "MODEL", *_COSTS, *_COUNTS, "LIKELY CAUSES"),
        [*map(_make_cells, comparison.rows), total],
        right=(*_COSTS, *_COUNTS),
    )
    _print_products(comparison)
    _print_parts(result)
    causes = [cause for row in comparison.rows for cause in row.causes]
    if causes:
        click.echo("\nLikely causes:")
    for name in dict.fromkeys(cause.name for cause in causes):
        click.echo(f"  {format_text(get_title(name))}: {get_explanation(name)}")
    if comparison.notes:
        click.echo("\nNotes:")
    for note in comparison.notes:
        click.echo(f"  {format_text(format_cause(note))}: {get_explanation(note.name)}")


def _print_products(comparison: Comparison) -> None:
    if comparison.products:
        click.echo()
        right = ("REPORTED", "AT LIST PRICES", "TOKENS REPORTED", "REQUESTS")
        print_table(
            ("PRODUCT", *right),
            (
                (
                    each.product or "not named",
                    format_cost(each.reported.cost_cents),
                    format_cost(each.reported.list_cents),
                    format_count(each.reported.all_tokens),
                    format_count(each.requests),
                )
                for each in comparison.products
            ),
            right=right,
        )


def _print_parts(result: Reconciliation) -> None:
    comparison = result.comparison
    unnamed = "none" if result.analytics else "default"
    if comparison.workspaces:
        click.echo()
        print_table(
            ("WORKSPACE", "REPORTED", "RECORDED", "TOKENS REPORTED"),
            (
                (
                    each.workspace_id or unnamed,
                    format_cost(each.reported.cost_cents),
                    format_cost(None if each.recorded is None else each.recorded.cost_cents),
                    format_count(each.reported.all_tokens),
                )
                for each in comparison.workspaces
            ),
            right=("REPORTED", "RECORDED", "TOKENS REPORTED"),
        )
        if not result.analytics:
            click.echo(
                "Upstream names no id for the default workspace; recorded calls may have one."
            )
    if comparison.keys:
        click.echo()
        print_table(
            ("UPSTREAM KEY", "WORKSPACE", "TOKENS REPORTED"),
            (
                (
                    each.api_key_id or "no key (Console, sign-in)",
                    each.workspace_id or unnamed,
                    format_count(each.reported.all_tokens),
                )
                for each in comparison.keys
            ),
            right=("TOKENS REPORTED",),
        )
        click.echo("Costs are not compared by key: recorded calls do not name upstream's keys.")


def _make_cells(row: Row) -> tuple[str, ...]:
    causes = "; ".join(map(format_cause, row.causes))
    return (
        row.day.isoformat(),
        row.model or describe_kind(row.kind),
        *_cells(row.reported, row.recorded),
        causes,
    )


def _cells(reported: Figures, recorded: Figures) -> Iterator[str]:
    yield format_cost(reported.cost_cents)
    yield format_cost(recorded.cost_cents)
    yield format_cents_change(reported.cost_cents - recorded.cost_cents)
    yield format_count(reported.all_tokens)
    yield format_count(recorded.all_tokens)
    yield format_count_change(reported.all_tokens - recorded.all_tokens)
