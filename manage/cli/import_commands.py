"""``taximeter import``: the group of import commands; ``import FILE`` means ``import file FILE``."""

import re
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from manage.cli.command_group import CommandGroup

_WORD = re.compile(r"[a-z]+(-[a-z]+)*")


class _ImportGroup(CommandGroup):
    """A command group that accepts the name of a file in place of the command ``file``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments, with ``file`` inserted if the first is no command but the name of a file."""
        first = args[0] if args else None
        if first is None or first in (*self.list_commands(ctx), *ctx.help_option_names):
            return super().parse_args(ctx, args)
        if not _WORD.fullmatch(first) or Path(first).exists():
            args = ["file", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of ``incomplete``: matching commands, and files, which the shell adds."""
        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]


@click.group(
    cls=_ImportGroup,
    modules={
        "batch": "manage.cli.import_batch_commands",
        "claude-code": "manage.cli.import_claude_code_commands",
        "file": "manage.cli.import_file_commands",
    },
)
def import_() -> None:
    """Import calls that were not recorded here.

    The service may run meanwhile. What is there already is left as it is, so an import that was
    interrupted is finished by running it again. `taximeter import FILE` is `taximeter import file FILE`.

    \b
    Examples:
      taximeter import calls.jsonl
      taximeter import batch msgbatch_013Zva2CMHLNnXjNJJKqJ2EF
      taximeter import claude-code
    """
