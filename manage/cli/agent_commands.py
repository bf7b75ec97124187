"""``taximeter agents list|name|unname``, here or on a remote service."""

import click

from manage.api import credential_operations as operations
from manage.cli.backend_choice import open_backend, print_response
from manage.cli.console import explained, json_option, service_options
from manage.cli.terminal import format_time, print_table
from runtime.safe_text import terminal_line


@click.group()
def agents() -> None:
    """Name agents by the ids that their clients send.

    Reports by agent and the home page show the names.

    \b
    Examples:
      taximeter usage --by agent
      taximeter agents name a0f3c2 reviewer
      taximeter agents list
    """


@agents.command("list")
@service_options
@json_option
def list_names(base_url: str | None, data_dir: str | None, as_json: bool) -> None:
    """List the names of agents.

    \b
    Examples:
      taximeter agents list
      taximeter agents list --json
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        found = backend.call(operations.list_agent_names)
    if as_json:
        print_response(found)
        return
    print_table(
        ("AGENT", "NAME", "NAMED (UTC)"),
        [(each.agent, each.name, format_time(each.created_at)) for each in found.items],
        empty="No agent has a name. `taximeter agents name` gives one.",
    )


@agents.command("name")
@click.argument("agent")
@click.argument("name")
@service_options
@json_option
def set_name(
    agent: str, name: str, base_url: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Name an agent.

    A name that it had is replaced.

    \b
    Examples:
      taximeter agents name a0f3c2 reviewer
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        named = backend.call(operations.set_agent_name, agent, name=name)
    if as_json:
        print_response(named)
    else:
        click.echo(f"{terminal_line(named.agent)} is now {terminal_line(named.name)}.")


@agents.command("unname")
@click.argument("agent")
@service_options
@json_option
def delete_name(agent: str, base_url: str | None, data_dir: str | None, as_json: bool) -> None:
    """Remove the name of an agent.

    Its calls stay, and are listed by its id again.

    \b
    Examples:
      taximeter agents unname a0f3c2
    """
    with explained(), open_backend(base_url, data_dir) as backend:
        done = backend.call(operations.delete_agent_name, agent)
    if as_json:
        print_response(done)
    else:
        click.echo(f"Removed the name of {terminal_line(agent)}.")
