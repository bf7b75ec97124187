"""``taximeter keys list|create|delete``, here or on a remote service."""

import click

from manage.api import key_operations as operations
from manage.cli.backend import call_for_all
from manage.cli.console import API_KEY_VARIABLE, user_option
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_table, format_time
from runtime.safe_text import terminal_line


@click.group()
def keys() -> None:
    """Manage service API keys, for the API and remote use.

    They are unrelated to the upstream credential, which this service never stores.

    \b
    Examples:
      taximeter keys create laptop
      taximeter keys list
    """


@keys.command("list")
@user_option
@service_command
def list_keys(service: Service) -> None:
    """List your keys, newest first, with times in UTC. Only the beginning of each key is shown; the
    rest is not stored.

    \b
    Examples:
      taximeter keys list
      taximeter keys list --user ada@example.org
      taximeter keys list --json --base-url https://meter.example.org
    """
    page = call_for_all(service, operations.list_keys)
    service.print(
        page,
        format_table(
            ("ID", "KEY", "NAME", "CREATED (UTC)", "LAST USED (UTC)"),
            [
                (
                    item.id,
                    item.key_prefix,
                    item.name,
                    format_time(item.created_at),
                    format_time(item.last_used_at),
                )
                for item in page.items
            ],
            empty="There are no keys. `taximeter keys create` adds one.",
        ),
    )


@keys.command("create")
@click.argument("name")
@user_option
@service_command
def create_key(service: Service, name: str) -> None:
    """Create a key and print it, alone, on standard output. It is not shown again.

    \b
    Examples:
      taximeter keys create laptop
      export TAXIMETER_API_KEY="$(taximeter keys create laptop)"
      taximeter keys create dashboards --user ada@example.org
    """
    created = service.call(operations.create_key, name=name)
    service.print(created, terminal_line(created.key))
    click.echo(
        f"Store it now: it is not shown again. Use it in {API_KEY_VARIABLE} with `taximeter"
        " --base-url`; other clients send it as Authorization: Bearer.",
        err=True,
    )


@keys.command("delete")
@click.argument("key_id", metavar="ID")
@user_option
@service_command
def delete_key(service: Service, key_id: str) -> None:
    """Delete one of your keys by its id, which `keys list` shows. It stops working immediately.

    \b
    Examples:
      taximeter keys delete 0197f7c2-3b5e-7c1a-9d43-2f6f0e1b8a55
    """
    done = service.call(operations.delete_key, key_id)
    service.print(done, f"Deleted the key {terminal_line(key_id)}.")
