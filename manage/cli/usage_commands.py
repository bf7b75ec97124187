"""``taximeter usage``: totals of the calls, with bars."""

from datetime import date
from typing import Any

import click

from manage.cli.console import explained, json_option, open_backend, print_json, service_options
from manage.cli.periods import Day, find_days, period_options
from manage.cli.terminal import make_bar, print_table
from manage.cli.usage_cells import COUNT_HEADINGS, count_cells
from store.traces.usage_report import Grouping

_NAMES: dict[Grouping, str] = {"day": "day", "model": "model", "endpoint": "slug"}
_TITLES: dict[Grouping, str] = {"day": "DAY (UTC)", "model": "MODEL", "endpoint": "SLUG"}


@click.command()
@click.option(
    "--by",
    type=click.Choice(["day", "model", "endpoint"]),
    default="day",
    show_default=True,
    help="What to add up by.",
)
@period_options(Day())
@service_options
@json_option
def usage(
    by: Grouping,
    from_day: date | None,
    to_day: date | None,
    since: date | None,
    until: date | None,
    base_url: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Show what calls cost, by day, model or endpoint.

    All calls of your organisation. Input is all that the model read, cached tokens included. The totals stay when entries are
    pruned. Days are UTC; 7d is the day seven days before today.

    \b
    Examples:
      taximeter usage
      taximeter usage --by model --from 2026-01-01 --to 2026-01-31
      taximeter usage --since 7d
      taximeter usage --by endpoint --json | jq '.groups[] | {slug, cost_cents}'
      taximeter usage --base-url https://meter.example.org
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        document = backend.usage(by, *find_days(from_day, to_day, since, until))
    if as_json:
        print_json(document)
    else:
        _print_report(by, document)


def _print_report(by: Grouping, document: dict[str, Any]) -> None:
    groups, totals = document.get("groups") or [], document.get("totals") or {}
    # Bars of cost; where nothing has a price, of calls.
    measure = "cost_cents" if any(group.get("cost_cents") for group in groups) else "calls"
    largest = max((group.get(measure) or 0 for group in groups), default=0)
    rows = [
        (
            group.get(_NAMES[by]) or "(not known)",
            *count_cells(group),
            make_bar(group.get(measure) or 0, largest),
        )
        for group in groups
    ]
    header = (_TITLES[by], *COUNT_HEADINGS, "")
    print_table(header, [*rows, ("TOTAL", *count_cells(totals), "")], right=COUNT_HEADINGS)
    if totals.get("unpriced"):
        click.echo(
            f"\n{totals['unpriced']:,} calls have no known price and are not in the cost;"
            " `taximeter reprice` adds them once they have one."
        )
    if totals.get("rejected"):
        click.echo(f"\n{totals['rejected']:,} requests over the rate limit were refused.")
