"""Starting the client of a run with its variables, which Claude Code also gets in its settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from manage.claude_code.arguments import get_given_settings, is_claude_code, passing_variables
from manage.claude_code.settings_files import MANAGED_FOLDER, get_variables, read_settings_files
from manage.claude_code.variables import Sources, choose_variables, describe_others

UNMERGED = (
    "--settings cannot be merged with the variables of this run, so a settings file of Claude Code may"
    " replace them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A command and the environment to run it in."""

    command: Sequence[str]
    environ: Mapping[str, str]


@contextmanager
def starting(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    url: str,
    print_line: Callable[[str], None],
    *,
    as_direct: bool,
    managed_folder: Path = MANAGED_FOLDER,
) -> Iterator[Start]:
    """Yield the command and the environment that make a client in ``folder`` use the base URL ``url``.

    Other places that set a base URL for Claude Code are printed. For ``as_direct`` see
    ``choose_variables``."""
    is_claude = is_claude_code(command)
    given = get_variables(get_given_settings(command)) if is_claude else {}
    sources = Sources.make(environ, read_settings_files(environ, folder, managed_folder), given)
    variables = choose_variables(sources, url, as_direct=as_direct)
    changed = {**environ, **variables}
    if not is_claude:
        yield Start(command=command, environ=changed)
        return
    with passing_variables(command, variables) as passed:
        if passed is None:
            print_line(UNMERGED)
        for line in describe_others(sources, is_beaten=passed is not None):
            print_line(line)
        yield Start(command=passed or command, environ=changed)
