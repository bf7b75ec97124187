import pytest
from click.shell_completion import CompletionItem, get_completion_class
from click.testing import CliRunner

from manage.cli.completion_commands import VARIABLE
from manage.cli.main import cli


def complete(*words: str) -> list[str]:
    shell = get_completion_class("zsh")
    assert shell is not None
    *before, last = words
    found: list[CompletionItem] = shell(cli, {}, "taximeter", VARIABLE).get_completions(
        before, last
    )
    return [item.value for item in found]


def test_commands_and_options_are_completed():
    assert complete("e") == ["endpoints", "erase", "export"]
    assert complete("keys", "") == ["create", "delete", "list"]
    assert complete("usage", "--by", "") == [
        "day", "model", "endpoint", "client", "credential", "billing",
        "user", "project", "tag", "session", "agent",
    ]  # fmt: skip
    assert "--slug" in complete("tail", "--")


def test_files_are_completed_where_a_file_may_stand_for_a_command():
    assert complete("import", "b") == ["batch", "b"]  # the shell takes the last for its files
    assert complete("import", "--organization", "o", "call") == ["call"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell):
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in result.stdout
