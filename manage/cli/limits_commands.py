"""``taximeter limits``, here or on a remote service."""

from datetime import datetime

import click

from manage.api import credential_operations, limit_operations as operations
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_table, format_time
from metering.credential_names import name_credential
from metering.formats import format_lasted
from runtime import clock
from runtime.safe_text import terminal_line
from store.traces.calls.limit_model import LimitWindow


@click.command()
@service_command
def limits(service: Service) -> None:
    """Show how much is left of each window of a subscription.

    The upstream states the used share with each response, for all devices of an account. Less may
    be left: calls that bypass this service are noticed with the next call that passes it. An account
    has the name that `taximeter credentials name` gave to its fingerprint.

    \b
    Examples:
      taximeter limits
      taximeter limits --json | jq '.items[] | select(.used > 0.9)'
    """
    found = service.call(operations.list_limits)
    named = () if service.as_json else service.call(credential_operations.list_names).items
    names = {each.fingerprint: each.name for each in named}
    now = clock.now()
    table = format_table(
        ("ACCOUNT", "WINDOW", "USED", "LEFT", "RESETS (UTC)", "USED UP (UTC)", "READ", "STATUS"),
        [
            (
                terminal_line(name_credential(each.account, names)),
                terminal_line(each.window),
                f"{each.used:.0%}",
                "reset since" if each.left is None else f"at most {each.left:.0%}",
                "" if each.resets_at is None else format_time(each.resets_at),
                _describe_end(each),
                _describe_age(each, now),
                terminal_line(each.status or ""),
            )
            for each in found.items
        ],
        right=("USED",),
        empty="No response has stated a window of a subscription in the last nine days.",
    )
    service.print(found, table)


def _describe_end(window: LimitWindow) -> str:
    if window.left is None:
        return ""
    if window.used >= 1:
        return "used up"
    return "lasts" if window.used_up_at is None else format_time(window.used_up_at)


def _describe_age(window: LimitWindow, now: datetime) -> str:
    age = now - clock.parse_instant(window.read_at)
    return f"{format_lasted(max(0.0, age.total_seconds() * 1000))} ago"
