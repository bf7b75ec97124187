"""``taximeter agents list|name|unname``, here or on a remote service."""

import click

from manage.api import credential_operations as operations
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_table, format_time
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
@service_command
def list_names(service: Service) -> None:
    """List the names of agents.

    \b
    Examples:
      taximeter agents list
      taximeter agents list --json
    """
    found = service.call(operations.list_agent_names)
    service.print(
        found,
        format_table(
            ("AGENT", "NAME", "NAMED (UTC)"),
            [(each.agent, each.name, format_time(each.created_at)) for each in found.items],
            empty="No agent has a name. `taximeter agents name` gives one.",
        ),
    )


@agents.command("name")
@click.argument("agent")
@click.argument("name")
@service_command
def set_name(service: Service, agent: str, name: str) -> None:
    """Name an agent.

    An earlier name is replaced.

    \b
    Examples:
      taximeter agents name a0f3c2 reviewer
    """
    named = service.call(operations.set_agent_name, agent, name=name)
    service.print(named, f"{terminal_line(named.agent)} is now {terminal_line(named.name)}.")


@agents.command("unname")
@click.argument("agent")
@service_command
def delete_name(service: Service, agent: str) -> None:
    """Remove the name of an agent.

    Its calls stay, and are listed by its id again.

    \b
    Examples:
      taximeter agents unname a0f3c2
    """
    done = service.call(operations.delete_agent_name, agent)
    service.print(done, f"Removed the name of {terminal_line(agent)}.")
