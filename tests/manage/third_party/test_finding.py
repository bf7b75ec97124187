import pluggy
import pytest

from manage.third_party.commands import find_commands
from manage.third_party.finding import ExtensionError, find, register
from manage.third_party.starting import prepare
from runtime import hooks
from runtime.errors import StartError
from runtime.settings import Settings

COMMAND = """
import click

@click.command()
def greet():
    click.echo("hello")

@hookimpl
def commands():
    return {"greet": greet}
"""


@pytest.fixture
def manager():
    manager = pluggy.PluginManager(hooks.NAME)
    manager.add_hookspecs(hooks)
    return manager


def test_each_file_of_the_folder_is_an_extension_and_none_is_imported_to_find_it(folder, write):
    write("second", "raise RuntimeError")
    path = write("first", "raise RuntimeError")
    (folder / "notes.txt").write_text("no extension")
    assert [each.name for each in find(folder)] == ["first", "second"]
    assert find(folder)[0].origin == str(path)
    assert find(None) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@hookimpl\ndef calls_are_stored(calls): ...", "no such hook"),
        ("@hookimpl\ndef calls_were_stored(color): ...", "no such hook|color"),
        ("@hookimpl\ndef processes(settings): ...", "only extensions that come with Taximeter"),
    ],
)
def test_what_implements_other_hooks_is_refused_and_leaves_nothing(
    folder, write, manager, text, reason
):
    write("bad", text)
    (found,) = find(folder)
    with pytest.raises((ExtensionError, pluggy.PluginValidationError), match=reason):
        register(manager, found)
    assert manager.get_plugins() == set()


def test_commands_of_others_are_commands_of_taximeter(folder, write, monkeypatch, capsys):
    write("good", COMMAND)
    write("broken", "import nothing_that_is_there")
    write("wrong", "@hookimpl\ndef commands():\n    return {'greet': 3}")
    monkeypatch.setenv("TAXIMETER_EXTENSIONS", str(folder))
    assert list(find_commands()) == ["greet"]
    errors = capsys.readouterr().err
    assert "The extension broken is left out: ModuleNotFoundError" in errors
    assert "The extension wrong is left out: ExtensionError: the command greet is no" in errors


def test_a_folder_that_is_not_there_is_refused_when_the_service_starts(tmp_path):
    settings = Settings.from_env(
        {
            "TAXIMETER_DATA_DIR": str(tmp_path),
            "TAXIMETER_EXTENSIONS": str(tmp_path / "missing"),
        }
    )
    with pytest.raises(StartError, match=r"TAXIMETER_EXTENSIONS=.*missing is no folder"):
        prepare(settings, print)
