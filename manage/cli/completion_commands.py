"""``taximeter completion``: the script by which a shell completes commands and options."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from manage.cli.parameters import Choice

PROGRAM = "taximeter"
VARIABLE = "_TAXIMETER_COMPLETE"
SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=Choice(tuple(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    A line in the file that the shell reads at its start has it run the script. `taximeter` must be on
    the path.

    \b
    Examples:
      eval "$(taximeter completion bash)"         in ~/.bashrc; bash 4.4 or newer
      eval "$(taximeter completion zsh)"          in ~/.zshrc, after compinit
      taximeter completion fish | source          in ~/.config/fish/config.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, PROGRAM, VARIABLE).source())
