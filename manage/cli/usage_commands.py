"""``taximeter usage``: totals of the calls, with bars."""

from datetime import date

import click

from manage.api import usage_operations
from manage.api.usage_operations import Usage, UsageMonth
from manage.cli.backend import given
from manage.cli.backend_choice import open_backend, print_response
from manage.cli.console import explained, json_option, service_options
from manage.cli.parameters import Choice
from manage.cli.periods import Day, find_days, period_options
from manage.cli.program import name_commands
from manage.cli.terminal import format_amount, make_bar, print_table
from manage.cli.usage_cells import (
    describe_open_costs,
    describe_products,
    make_cells,
    name_group,
)
from metering.formats import format_number
from runtime import clock
from store.traces.sums.usage_report import Grouping

# The field that names a group, and the heading of its column.
_NAMES: dict[Grouping, tuple[str, str]] = {
    "day": ("day", "DAY (UTC)"),
    "model": ("model", "MODEL"),
    "endpoint": ("slug", "ENDPOINT"),
    "client": ("client", "CLIENT"),
    "credential": ("credential_hmac", "CREDENTIAL"),
    "billing": ("billing", "BILLING"),
    "user": ("user", "USER"),
    "project": ("project", "PROJECT"),
    "tag": ("tag", "TAG"),
    "session": ("session", "SESSION"),
    "agent": ("agent", "AGENT"),
}


@click.command()
@click.option(
    "--by",
    type=Choice(tuple(_NAMES)),
    default="day",
    show_default=True,
    help="What to group by.",
)
@click.option(
    "--month",
    is_flag=True,
    help="The current month (UTC): its days, today's cost, and the cost expected at its end.",
)
@period_options(Day())
@service_options
@json_option
def usage(
    by: Grouping,
    month: bool,
    from_day: date | None,
    to_day: date | None,
    since: date | None,
    until: date | None,
    base_url: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Show what calls cost, by day, model, project and more.

    Covers all calls of your organisation. Input is all that the model read, including cached
    tokens. Totals are kept when calls are pruned. Days are UTC; 7d is the day seven days before
    today.

    A client is the product of the user-agent, a credential the fingerprint of the key or token that
    was sent upstream. Billing says who pays: api_key by the token, subscription nothing more and
    customer another organisation (the cost is then a value, and no spend), overage the paid extra
    usage of a subscription. Calls that are imported from transcripts have the billing imported, and
    are no spend either. Users, projects and tags are what clients say in headers. A call may have
    several tags, so rows by tag may be more than the total, and calls without a tag are in none. Of
    them, and of sessions and agents, the 1,000 most expensive have rows of their own.

    \b
    Examples:
      taximeter usage
      taximeter usage --by model --from 2026-01-01 --to 2026-01-31
      taximeter usage --since 7d
      taximeter usage --month
      taximeter usage --by client --since 7d
      taximeter usage --by project --since 7d
      taximeter usage --by endpoint --json | jq '.groups[] | {slug, cost_cents}'
      taximeter usage --base-url https://meter.example.org
    """
    if month:
        if any(each is not None for each in (from_day, to_day, since, until)):
            raise click.UsageError("--month excludes --from, --to, --since and --until")
        from_day = clock.now().date().replace(day=1)
    with explained(), open_backend(base_url, data_dir) as backend:
        first, last = find_days(from_day, to_day, since, until)
        report = backend.call(
            usage_operations.get_usage, **given(by=by, from_day=first, to_day=last)
        )
    if as_json:
        print_response(report)
    else:
        _print_report(report)
        if month and report.month is not None:
            _print_month(report.month)


def _print_month(month: UsageMonth) -> None:
    covered = month.cost_cents - month.spend_cents > 0
    click.echo(f"\nToday: {format_amount(month.today_cents)}")
    click.echo(
        f"This month so far: {format_amount(month.cost_cents)}"
        + (f", of which {format_amount(month.spend_cents)} is spend" if covered else "")
    )
    if month.expected_cost_cents is None:
        click.echo("Expected at its end: not known with less than a day of calls.")
        return
    click.echo(
        f"Expected at its end: {format_amount(month.expected_cost_cents)}"
        + (f", of which {format_amount(month.expected_spend_cents)} is spend" if covered else "")
    )
    click.echo("(for each hour that is left the mean of the last 7 days)")


def _print_report(report: Usage) -> None:
    groups, totals = report.groups, report.totals
    # Bars of cost; where nothing has a price, of calls.
    measure = "cost_cents" if any(group.cost_cents for group in groups) else "calls"
    largest = max((getattr(group, measure) for group in groups), default=0)
    headings, cells = make_cells([*groups, totals])
    name, title = _NAMES[report.by]
    rows = [
        (
            name_group(group, name),
            *counts,
            make_bar(getattr(group, measure), largest),
        )
        for group, counts in zip(groups, cells, strict=False)
    ]
    header = (title, *headings, "")
    print_table(header, [*rows, ("TOTAL", *cells[-1], "")], right=headings)
    for line in describe_products(report.products):
        click.echo(f"\n{line}")
    for line in describe_open_costs(totals):
        click.echo(f"\n{line}")
    if totals.unpriced:
        hint = "Add a price to the price file (TAXIMETER_PRICES) and run `taximeter reprice`."
        click.echo(name_commands(hint))
    if totals.rejected:
        click.echo(
            "\nRefused over the rate limit or a budget:"
            f" {format_number(totals.rejected, 'request')}."
        )
