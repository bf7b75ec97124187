import pytest
from click.shell_completion import CompletionItem, get_completion_class

from manage.cli.main import cli

VARIABLE = "_TAXIMETER_COMPLETE"


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
    ]  # fmt: skip
    assert "--slug" in complete("tail", "--")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_can_be_made(shell, monkeypatch):
    made = get_completion_class(shell)
    assert made is not None
    monkeypatch.setattr(made, "_check_version", lambda *_: None, raising=False)  # it starts a bash
    assert VARIABLE in made(cli, {}, "taximeter", VARIABLE).source()
