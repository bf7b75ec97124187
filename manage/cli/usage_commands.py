"""``taximeter usage``: totals of the calls, with bars."""

from collections.abc import Iterator
from datetime import date

import click

from manage.api import usage_operations
from manage.api.usage_operations import Usage, UsageMonth
from manage.cli.backend import given
from manage.cli.parameters import Choice
from manage.cli.periods import Day, find_days, period_options
from manage.cli.program import name_commands
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_amount, format_table, make_bar
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
@service_command
def usage(
    service: Service,
    by: Grouping,
    month: bool,
    from_day: date | None,
    to_day: date | None,
    since: date | None,
    until: date | None,
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
    first, last = find_days(from_day, to_day, since, until)
    report = service.call(usage_operations.get_usage, **given(by=by, from_day=first, to_day=last))
    lines = [*_describe_report(report)]
    if month and report.month is not None:
        lines += _describe_month(report.month)
    service.print(report, "\n".join(lines))


def _describe_month(month: UsageMonth) -> Iterator[str]:
    covered = month.cost_cents - month.spend_cents > 0
    yield f"\nToday: {format_amount(month.today_cents)}"
    yield (
        f"This month so far: {format_amount(month.cost_cents)}"
        + (f", of which {format_amount(month.spend_cents)} is spend" if covered else "")
    )
    if month.expected_cost_cents is None:
        yield "Expected at its end: not known with less than a day of calls."
        return
    yield (
        f"Expected at its end: {format_amount(month.expected_cost_cents)}"
        + (f", of which {format_amount(month.expected_spend_cents)} is spend" if covered else "")
    )
    yield "(for each hour that is left the mean of the last 7 days)"


def _describe_report(report: Usage) -> Iterator[str]:
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
    yield format_table(header, [*rows, ("TOTAL", *cells[-1], "")], right=headings)
    for line in describe_products(report.products):
        yield f"\n{line}"
    for line in describe_open_costs(totals):
        yield f"\n{line}"
    if totals.unpriced:
        hint = "Add a price to the price file (TAXIMETER_PRICES) and run `taximeter reprice`."
        yield name_commands(hint)
    if totals.rejected:
        yield (
            "\nRefused over the rate limit or a budget:"
            f" {format_number(totals.rejected, 'request')}."
        )
