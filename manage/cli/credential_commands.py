"""``taximeter credentials list|name|unname``, here or on a remote service."""

import click

from manage.api import credential_operations as operations
from manage.cli.backend_choice import open_backend, print_response
from manage.cli.console import explained, json_option, service_options
from manage.cli.terminal import format_time, print_table
from metering.credential_names import SHOWN_CHARS
from runtime.safe_text import terminal_line


@click.group()
def credentials() -> None:
    """Name upstream credentials by their fingerprints.

    Credentials are stored nowhere. A fingerprint holds no character of its credential. The token of a
    subscription is renewed every few hours and has another fingerprint each time: all of an account
    have the name that one of them, or the account of `taximeter limits`, was given.

    \b
    Examples:
      taximeter usage --by credential
      taximeter credentials name 7d1c09aa54ef8b02 "ci key"
      taximeter credentials list
    """


@credentials.command("list")
@service_options
@json_option
def list_names(base_url: str | None, data_dir: str | None, as_json: bool) -> None:
    """List the names of credentials and subscriptions.

    \b
    Examples:
      taximeter credentials list
      taximeter credentials list --json
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        found = backend.call(operations.list_names)
    if as_json:
        print_response(found)
        return
    print_table(
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
    )


@credentials.command("name")
@click.argument("fingerprint")
@click.argument("name")
@service_options
@json_option
def set_name(
    fingerprint: str, name: str, base_url: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Name a credential or a subscription.

    A name that it had is replaced.

    \b
    Examples:
      taximeter credentials name 7d1c09aa54ef8b02 "ci key"
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        named = backend.call(operations.set_name, fingerprint, name=name)
    if as_json:
        print_response(named)
    else:
        click.echo(f"{terminal_line(named.fingerprint)} is now {terminal_line(named.name)}.")


@credentials.command("unname")
@click.argument("fingerprint")
@service_options
@json_option
def delete_name(
    fingerprint: str, base_url: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Remove the name of a credential.

    Its calls stay, and are listed by its fingerprint again.

    \b
    Examples:
      taximeter credentials unname 7d1c09aa54ef8b02
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        done = backend.call(operations.delete_name, fingerprint)
    if as_json:
        print_response(done)
    else:
        click.echo(f"Removed the name of {terminal_line(fingerprint)}.")
