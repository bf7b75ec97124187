"""``docs/server.md`` uses commands, files and names that exist."""

import re
import shlex

import click
import pytest
import yaml

from manage.cli.main import cli
from tests import ROOT
from tests.deploy import DEPLOY

GUIDE = (ROOT / "docs" / "server.md").read_text()
LINES = [line for block in re.findall(r"```\w*\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]  # fmt: skip
# The program within its container, or by the function that the guide defines.
COMMANDS = {found[1] for line in LINES if (found := re.search(r"(?:^|exec (?:-T )?taximeter |run --rm (?=taximeter))taximeter ([a-z].*?)(?: >.*)?$", line))}  # fmt: skip


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words[0]
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("line", sorted(COMMANDS))
def test_its_commands_and_their_options_exist(line: str) -> None:
    command, arguments = resolve(shlex.split(line))
    assert not isinstance(command, click.Group)
    # A command keeps the first help option that it is asked for, so it is the one of the program.
    context = click.Context(command, parent=click.Context(cli, **cli.context_settings))
    command.make_parser(context).parse_args(arguments)


def test_it_has_the_commands_of_an_installation_from_first_user_to_last_check():
    verbs = {line.split()[0] for line in COMMANDS}
    assert verbs >= {"users", "endpoints", "budgets", "retention", "backup", "restore", "doctor"}


def test_the_files_and_volumes_that_it_names_exist():
    for name in set(re.findall(r"(?<![/\w])deploy/[\w.-]*\w", GUIDE)):
        assert name in ("deploy/.env", "deploy/compose.override.yaml") or (ROOT / name).is_file()
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    volumes = {f"{compose['name']}_{volume}" for volume in compose["volumes"]}
    assert {"taximeter_data", "taximeter_backup"} <= volumes
    assert set(re.findall(r"volume rm (\w+)", GUIDE)) <= volumes


def test_the_user_of_the_image_is_the_one_that_folders_are_given_to():
    [user] = set(re.findall(r"\b1\d{4}\b", GUIDE))
    assert f"USER {user}:{user}\n" in (DEPLOY / "Dockerfile").read_text()
