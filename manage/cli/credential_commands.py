"""``taximeter credentials list|name|unname``, here or on a remote service."""

import click

from manage.api import credential_operations as operations
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_table, format_time
from metering.credential_names import SHOWN_CHARS
from runtime.safe_text import terminal_line


@click.group()
def credentials() -> None:
    """Name upstream credentials by their fingerprints.

    Credentials are stored nowhere. A fingerprint holds no character of its credential. The token of a
    subscription is renewed every few hours and has another fingerprint each time. So a name that is given
    to one token, or to the account of `taximeter limits`, is the name of all tokens of that account.

    \b
    Examples:
      taximeter usage --by credential
      taximeter credentials name 7d1c09aa54ef8b02 "ci key"
      taximeter credentials list
    """


@credentials.command("list")
@service_command
def list_names(service: Service) -> None:
    """List the names of credentials and subscriptions.

    \b
    Examples:
      taximeter credentials list
      taximeter credentials list --json
    """
    found = service.call(operations.list_names)
    service.print(
        found,
        format_table(
            ("FINGERPRINT", "NAME", "NAMED (UTC)", "ALSO"),
            [
                (
                    each.fingerprint,
                    each.name,
                    format_time(each.created_at),
                    ", ".join(
                        one[:SHOWN_CHARS] for one in each.fingerprints if one != each.fingerprint
                    ),
                )
                for each in found.items
            ],
            empty="No credential has a name. `taximeter credentials name` gives one.",
        ),
    )


@credentials.command("name")
@click.argument("fingerprint")
@click.argument("name")
@service_command
def set_name(service: Service, fingerprint: str, name: str) -> None:
    """Name a credential or a subscription.

    An earlier name is replaced.

    \b
    Examples:
      taximeter credentials name 7d1c09aa54ef8b02 "ci key"
    """
    named = service.call(operations.set_name, fingerprint, name=name)
    service.print(named, f"{terminal_line(named.fingerprint)} is now {terminal_line(named.name)}.")


@credentials.command("unname")
@click.argument("fingerprint")
@service_command
def delete_name(service: Service, fingerprint: str) -> None:
    """Remove the name of a credential.

    Its calls stay, and are listed by its fingerprint again.

    \b
    Examples:
      taximeter credentials unname 7d1c09aa54ef8b02
    """
    done = service.call(operations.delete_name, fingerprint)
    service.print(done, f"Removed the name of {terminal_line(fingerprint)}.")
