"""``taximeter alerts list|create|delete|test``, here or on a remote service."""

from time import monotonic, sleep
from typing import get_args

import click

from manage.api import alert_operations as operations
from manage.api.alert_operations import AlertRule
from manage.cli.backend import given
from manage.cli.parameters import Amount, Choice
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_table, format_time
from runtime.safe_text import terminal_line
from store.control.alerts import Kind, describe
from store.control.budgets import Format
from store.control.delivery_rows import Channel

TEST_WAIT_S, TEST_LOOK_S = 20.0, 0.5
_THRESHOLD = Amount("a number above 0", "50 or 0.9", min=0, min_open=True)


def _choice(words: object) -> Choice:
    return Choice(get_args(getattr(words, "__value__", words)))


@click.group()
def alerts() -> None:
    """Manage alerts about costs, failed calls and used limits.

    An alert is about an expensive session, failed calls, a subscription's window that is nearly used, or
    an expensive day. It is sent once for each session, hour, window or day, to the owners by mail or to a
    webhook. The home page shows the messages of the last day.

    \b
    Examples:
      taximeter alerts create session_cost 5
      taximeter alerts create errors 20 --format slack --url https://hooks.slack.com/services/…
      taximeter alerts list
    """


@alerts.command("list")
@service_command
def list_alerts(service: Service) -> None:
    """List the alerts, with the time and the result of the last message.

    The newest alert is first.

    \b
    Examples:
      taximeter alerts list
      taximeter alerts list --json | jq -r '.items[] | select(.last_error) | .id'
    """
    found = service.call(operations.list_alerts)
    service.print(
        found,
        format_table(
            ("ID", "WHEN", "TO", "LAST (UTC)", "RESULT"),
            [
                (
                    each.id,
                    describe(each.kind, each.threshold),
                    terminal_line(_name_target(each)),
                    "never" if each.last_at is None else format_time(each.last_at),
                    "" if each.last_at is None else terminal_line(_describe_result(each)),
                )
                for each in found.items
            ],
            empty="There are no alerts. `taximeter alerts create` adds one.",
        ),
    )


@alerts.command("create")
@click.argument("kind", type=_choice(Kind))
@click.argument("threshold", type=_THRESHOLD)
@click.option("--channel", type=_choice(Channel), help="By mail to the owners, or to a webhook.")
@click.option(
    "--format", "format_", type=_choice(Format), help="What the webhook takes: plain is JSON."
)
@click.option("--url", help="An https address; without it a webhook is that of the organisation.")
@service_command
def create_alert(
    service: Service,
    kind: str,
    threshold: float,
    channel: str | None,
    format_: str | None,
    url: str | None,
) -> None:
    """Add an alert.

    The threshold is in dollars for session_cost and day_cost, failed calls within an hour for errors,
    and the used share, such as 0.9, for window. With --url or --format it goes to a webhook.

    \b
    Examples:
      taximeter alerts create day_cost 50
      taximeter alerts create window 0.9 --channel webhook
      taximeter alerts create errors 20 --format teams --url https://example.logic.azure.com/…
    """
    if channel is None and (url is not None or format_ is not None):
        channel = "webhook"
    created = service.call(
        operations.create_alert,
        kind=kind,
        threshold=threshold,
        **given(channel=channel, format=format_, url=url),
    )
    words, target = describe(created.kind, created.threshold), terminal_line(_name_target(created))
    service.print(created, f"Added the alert {created.id}: when {words}, to {target}.")


@alerts.command("delete")
@click.argument("alert")
@service_command
def delete_alert(service: Service, alert: str) -> None:
    """Delete an alert, named by its id.

    The record of what it sent is deleted too.

    \b
    Examples:
      taximeter alerts delete 0199c0de-5a7c-7e02-8b1d-3f9e2d6c4a10
    """
    done = service.call(operations.delete_alert, alert)
    service.print(done, f"Deleted the alert {terminal_line(alert)}.")


@alerts.command("test")
@click.argument("alert")
@service_command
def test_alert(service: Service, alert: str) -> None:
    """Send a test message to the recipients of an alert.

    The running service sends the message. The command waits for the result, for up to 20 seconds.

    \b
    Examples:
      taximeter alerts test 0199c0de-5a7c-7e02-8b1d-3f9e2d6c4a10
    """
    result = _wait(service, service.call(operations.send_test, alert))
    service.print(
        result, f"The test to {terminal_line(_name_target(result))}: {_describe_result(result)}."
    )
    if result.last_delivered_at is None:
        raise SystemExit(1)


def _wait(service: Service, sent: AlertRule) -> AlertRule:
    """Return the alert once its test has a result, or unchanged after a timeout."""
    ends_s, found = monotonic() + TEST_WAIT_S, sent
    while not (found.last_delivered_at or found.last_error) and monotonic() < ends_s:
        sleep(TEST_LOOK_S)
        found = service.call(operations.get_alert, sent.id)
    return found


def _name_target(rule: AlertRule) -> str:
    if rule.channel == "mail":
        return "the owners by mail"
    name = "" if rule.format == "plain" else f" ({rule.format})"
    return (rule.url or "the organisation's webhook") + name


def _describe_result(rule: AlertRule) -> str:
    if rule.last_delivered_at is not None:
        return "delivered"
    return terminal_line(rule.last_error) if rule.last_error else "not sent: is the service up?"
