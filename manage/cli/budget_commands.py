"""``taximeter budgets set|list|delete|time-zone|webhook``, here or on a remote service."""

from collections.abc import Mapping
from typing import get_args

import click

from manage.api import budget_operations as operations, organization_operations
from manage.api.budget_operations import Budget
from manage.cli.backend import call_for_all, given
from manage.cli.endpoint_slugs import suggesting_endpoints
from manage.cli.parameters import DOLLARS, Choice, PartOfCalls, Shares
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_amount, format_table, format_time
from metering.attribution import Part
from metering.budget_periods import Period
from metering.budget_shares import DEFAULT_SHARES, format_percent
from metering.formats import format_calls
from runtime.safe_text import terminal_line
from store.control.budgets import Format
from store.json_models import ResponseModel

_PERIODS: Mapping[str, Period] = {"day": "day", "week": "week", "month": "month"}
_part_option = click.option(
    "--of",
    "part",
    type=PartOfCalls(),
    metavar="user|project|tag=NAME",
    help="Only the calls that name this user or project, or have this tag.",
)
_organization_option = click.option(
    "--organization", is_flag=True, help="The budget of the organisation, over all its endpoints."
)


@click.group()
def budgets() -> None:
    """Manage budgets, which limit what is spent.

    A budget is what an endpoint or the organisation may spend in a day, a week or a month.

    Owners get a mail at 80 % and at 100 %, and a webhook can be set. With --refuse calls are refused
    from 100 % until the next period begins. Days are those of the organisation's time zone, and weeks
    begin on Monday.

    \b
    Examples:
      taximeter budgets set ci-nightly --day 50 --refuse
      taximeter budgets set --organization --month 2000
      taximeter budgets set --organization --week 200 --of project=shop --warn-at 0.5,0.9
      taximeter budgets list
    """


@budgets.command("set")
@click.argument("endpoint", required=False)
@_organization_option
@click.option("--day", type=DOLLARS, metavar="USD", help="How many dollars may be spent in a day.")
@click.option(
    "--week", type=DOLLARS, metavar="USD", help="How many dollars may be spent in a week."
)
@click.option(
    "--month", type=DOLLARS, metavar="USD", help="How many dollars may be spent in a month."
)
@click.option("--refuse/--warn", default=False, help="Whether calls are refused at 100 %.")
@click.option(
    "--warn-at",
    type=Shares(),
    metavar="SHARES",
    help="The shares of the limit at which owners are told besides 100 %, as 0.5,0.9. 0.8 without it.",
)
@_part_option
@service_command
def set_budget(
    service: Service,
    endpoint: str | None,
    organization: bool,
    refuse: bool,
    warn_at: list[float] | None,
    part: Part | None,
    **limits: float | None,
) -> None:
    """Set the budget of an endpoint or of the organisation.

    It replaces an earlier one. The endpoint is named by its slug or id. With --of it is an additional
    budget, which only warns.

    \b
    Examples:
      taximeter budgets set ci-nightly --day 50 --refuse
      taximeter budgets set ci-nightly --month 300
      taximeter budgets set --organization --month 2000 --refuse
      taximeter budgets set --organization --week 200 --of user=ann@example.com
    """
    subject = _check_subject(endpoint, organization)
    period, limit = _check_limit(limits)
    optional = given(warn_at=warn_at, of=None if part is None else {part.kind: part.value})
    operation = operations.set_budget if subject is None else operations.set_endpoint_budget
    with suggesting_endpoints(service, subject):
        budget = service.call(
            operation,
            subject or "",
            period=period,
            limit_usd=limit,
            action="refuse" if refuse else "warn",
            **optional,
        )
    service.print(budget, f"Set the budget of {_name(budget)}: {_describe(budget)}.")


@budgets.command("list")
@service_command
def list_budgets(service: Service) -> None:
    """List the budgets, each with the amount spent.

    The newest budget is first. SPENT is the amount of the current day, week or month.

    \b
    Examples:
      taximeter budgets list
      taximeter budgets list --json | jq -r '.items[] | [.slug, .spent_usd / .limit_usd] | @tsv'
    """
    page = call_for_all(service, operations.list_budgets)
    table = format_table(
        ("BUDGET OF", "LIMIT", "SPENT", "USED", "AT 100 %", "RESET (UTC)"),
        [
            (
                _name_shortly(item),
                f"{format_amount(item.limit_usd * 100)} a {item.period}",
                format_amount(item.spent_usd * 100),
                f"{100 * item.spent_usd / item.limit_usd:.0f}%",
                item.action + _describe_warning(item),
                format_time(item.resets_at),
            )
            for item in page.items
        ],
        right=("SPENT", "USED"),
        empty="There are no budgets. `taximeter budgets set` adds one.",
    )
    unpriced = max((item.unpriced_calls for item in page.items), default=0)
    note = f"\n\n{format_calls(unpriced)} without a known price not in these sums."
    service.print(page, table + note * (unpriced > 0))


@budgets.command("delete")
@click.argument("endpoint", required=False)
@_organization_option
@_part_option
@service_command
def delete_budget(
    service: Service, endpoint: str | None, organization: bool, part: Part | None
) -> None:
    """Delete the budget of an endpoint or of the organisation.

    The endpoint is named by its slug or id.

    \b
    Examples:
      taximeter budgets delete ci-nightly
      taximeter budgets delete --organization
      taximeter budgets delete --organization --of project=shop
    """
    subject = _check_subject(endpoint, organization)
    of = {} if part is None else {str(part.kind): part.value}
    operation = operations.delete_budget if subject is None else operations.delete_endpoint_budget
    with suggesting_endpoints(service, subject):
        done = service.call(operation, subject or "", **of)
    whose = "the organisation" if subject is None else terminal_line(subject)
    service.print(done, f"Deleted the budget of {whose}{'' if part is None else f' for {part}'}.")


@budgets.command("time-zone")
@click.argument("name", required=False)
@service_command
def time_zone(service: Service, name: str | None) -> None:
    """Show or set the time zone of budgets and pages.

    An organisation has one time zone. The days, weeks and months of budgets begin at midnight in this
    zone, and pages show times in it.

    \b
    Examples:
      taximeter budgets time-zone
      taximeter budgets time-zone Europe/Berlin
    """
    if name is None:
        organization = service.call(organization_operations.get_organization)
    else:
        organization = service.call(organization_operations.update_organization, time_zone=name)
    service.print(organization, terminal_line(organization.time_zone))


@budgets.command("webhook")
@click.argument("url", required=False)
@click.option(
    "--format",
    "format_",
    type=Choice(get_args(Format.__value__)),
    help="What it takes of budgets: plain is signed JSON.",
)
@click.option("--delete", is_flag=True, help="Report budgets by mail alone.")
@service_command
def webhook(service: Service, url: str | None, format_: str | None, delete: bool) -> None:
    """Show or set the webhook that budgets are reported to.

    Owners get a mail too. Setting a webhook prints the secret that signs its messages. The secret is not
    shown again.

    \b
    Examples:
      taximeter budgets webhook
      taximeter budgets webhook https://hooks.example.org/taximeter
      taximeter budgets webhook https://hooks.slack.com/services/… --format slack
      taximeter budgets webhook --delete
    """
    if url is None and format_ is not None:
        raise click.UsageError("name the address that takes this format")
    if url is not None and delete:
        raise click.UsageError("choose one: an address, or --delete")
    response: ResponseModel
    if delete:
        response = service.call(operations.delete_webhook)
        text = "Deleted the webhook."
    elif url is None:
        found = response = service.call(operations.get_webhook)
        text = terminal_line(found.url)
    else:
        created = response = service.call(operations.set_webhook, url=url, **given(format=format_))
        text = f"Set the webhook. Its secret, which is not shown again:\n\n{created.secret}"
    service.print(response, text)


def _check_subject(endpoint: str | None, organization: bool) -> str | None:
    """Return the endpoint, None for the organisation. Raises UsageError."""
    if (endpoint is None) is not organization:
        raise click.UsageError("name an endpoint, or use --organization")
    return endpoint


def _check_limit(limits: Mapping[str, float | None]) -> tuple[Period, float]:
    """Return the period and the limit in dollars, of which one was given. Raises UsageError."""
    found = [
        (period, limit)
        for name, period in _PERIODS.items()
        if (limit := limits.get(name)) is not None
    ]
    if len(found) != 1:
        raise click.UsageError("choose the limit: --day, --week or --month")
    return found[0]


def _name(budget: Budget) -> str:
    whose = "the organisation" if budget.slug is None else terminal_line(budget.slug)
    return whose + _name_part(budget)


def _name_shortly(budget: Budget) -> str:
    return (budget.slug or "(organisation)") + _name_part(budget)


def _name_part(budget: Budget) -> str:
    return "".join(
        f" for {kind} {terminal_line(value)}" for kind, value in (budget.part or {}).items()
    )


def _describe_warning(budget: Budget) -> str:
    """Return the shares of the limit at which a budget warns, "" if they are the default ones."""
    if budget.warn_at == list(DEFAULT_SHARES):
        return ""
    shares = ", ".join(format_percent(100 * each) for each in budget.warn_at)
    return f" (told at {shares})" if shares else " (told at 100%)"


def _describe(budget: Budget) -> str:
    at_100 = "calls are refused" if budget.action == "refuse" else "calls go on"
    return (
        f"{format_amount(budget.limit_usd * 100)} a {budget.period}, at 100 % {at_100}"
        f"{_describe_warning(budget)};"
        f" {format_amount(budget.spent_usd * 100)} spent since {format_time(budget.starts_at)} UTC"
    )
