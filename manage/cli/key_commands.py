"""``taximeter keys list|create|delete``, here or on a remote service."""

import click

from manage.api import key_operations as operations
from manage.cli.backend import call_for_all
from manage.cli.backend_choice import open_backend, print_response
from manage.cli.console import (
    API_KEY_VARIABLE,
    explained,
    json_option,
    service_options,
    user_option,
)
from manage.cli.terminal import format_time, print_table
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
@service_options
@json_option
def list_keys(user: str | None, base_url: str | None, data_dir: str | None, as_json: bool) -> None:
    """List your keys, newest first, with times in UTC. Only the beginning of each key is shown; the
    rest is not stored.

    \b
    Examples:
      taximeter keys list
      taximeter keys list --user ada@example.org
      taximeter keys list --json --base-url https://meter.example.org
    """
    with explained(), open_backend(base_url, data_dir, user) as backend:
        page = call_for_all(backend, operations.list_keys)
    if as_json:
        print_response(page)
        return
    print_table(
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
    )


@keys.command("create")
@click.argument("name")
@user_option
@service_options
@json_option
def create_key(
    name: str, user: str | None, base_url: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Create a key and print it, alone, on standard output. It is not shown again.

    \b
    Examples:
      taximeter keys create laptop
      export TAXIMETER_API_KEY="$(taximeter keys create laptop)"
      taximeter keys create dashboards --user ada@example.org
    """
    with explained(), open_backend(base_url, data_dir, user) as backend:
        created = backend.call(operations.create_key, name=name)
    if as_json:
        print_response(created)
    else:
        click.echo(terminal_line(created.key))
    click.echo(
        f"Store it now: it is not shown again. Use it in {API_KEY_VARIABLE} with `taximeter"
        " --base-url`; other clients send it as Authorization: Bearer.",
        err=True,
    )


@keys.command("delete")
@click.argument("key_id", metavar="ID")
@user_option
@service_options
@json_option
def delete_key(
    key_id: str, user: str | None, base_url: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Delete one of your keys by its id, which `keys list` shows. It stops working immediately.

    \b
    Examples:
      taximeter keys delete 0197f7c2-3b5e-7c1a-9d43-2f6f0e1b8a55
    """
    with explained(), open_backend(base_url, data_dir, user) as backend:
        done = backend.call(operations.delete_key, key_id)
    if as_json:
        print_response(done)
    else:
        click.echo(f"Deleted the key {terminal_line(key_id)}.")
