"""``taximeter``: the command with its subcommands.

Subcommands have a noun and then a verb. They are thin: they read the options, call, and print. Exit
status 0, 1 (refused or not found), 2 (usage)."""

from runtime import loading

# isort: split

from collections import ChainMap

import click

from manage.cli.command_group import CommandGroup
from manage.third_party.commands import find_commands
from runtime import extensions

COMMANDS = {
    "agents": "manage.cli.agent_commands",
    "alerts": "manage.cli.alert_commands",
    "backup": "manage.cli.backup_commands",
    "budgets": "manage.cli.budget_commands",
    "completion": "manage.cli.completion_commands",
    "credentials": "manage.cli.credential_commands",
    "doctor": "manage.cli.maintenance_commands",
    "endpoints": "manage.cli.endpoint_commands",
    "erase": "manage.cli.retention_commands",
    "export": "manage.cli.entry_commands",
    "import": "manage.cli.import_commands",
    "keys": "manage.cli.key_commands",
    "limits": "manage.cli.limits_commands",
    "prune": "manage.cli.maintenance_commands",
    "reprice": "manage.cli.maintenance_commands",
    "restore": "manage.cli.backup_commands",
    "retention": "manage.cli.retention_commands",
    "run": "manage.cli.run_commands",
    "search": "manage.cli.search_commands",
    "sessions": "manage.cli.session_commands",
    "tail": "manage.cli.entry_commands",
    "statusline": "manage.cli.statusline_commands",
    "up": "manage.cli.up_command",
    "usage": "manage.cli.usage_commands",
    "users": "manage.cli.user_commands",
    "verify": "manage.cli.maintenance_commands",
}


@click.group(
    cls=CommandGroup,
    modules=COMMANDS | dict(ChainMap(*extensions.call().commands())),
    find_others=find_commands,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="taximeter", prog_name="taximeter")
def cli() -> None:
    """Log the tokens, cost and text of calls to the Messages API, through a transparent proxy.

    Commands act on the data directory of this machine. Those with the option --base-url also use a
    remote service, with a service API key in TAXIMETER_API_KEY.

    \b
    Start here:
      taximeter demo                          try the program with example data
      taximeter up                            run the service
      taximeter run claude                    run one client, and print its cost
      taximeter tail                          watch calls as they are recorded
      taximeter usage --by model              what they cost
      taximeter endpoints create "My team"    make another proxy endpoint
      taximeter budgets set my-team --day 50  hear of it before money runs out
      taximeter doctor                        check the service and its machine

    \b
    From another machine:
      export TAXIMETER_API_KEY=sk_…           from `taximeter keys create`
      taximeter endpoints list --base-url https://meter.example.org

    \b
    Times are UTC, in output and in options that name no other offset.

    Exit status: 0 for success; 1 when refused, not found, or something is wrong; 2 for invalid usage.
    """
    loading.finish()  # by now the module of the command is loaded, too


if __name__ == "__main__":
    cli()
