"""The settings files that set variables for Claude Code."""

import json

import pytest

from manage.claude_code.settings_files import read_settings_files

URL = {"env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}


@pytest.fixture
def place(tmp_path):
    """A home, a repository with a folder, and the folder of managed settings."""
    for name in ("home/.claude", "repository/.git", "repository/deep/.claude", "managed"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "repository" / ".claude").mkdir()
    return tmp_path


def write(path, settings=URL):
    path.parent.mkdir(exist_ok=True)
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))


def read(place, **environ):
    environ = {"HOME": str(place / "home")} | environ
    return read_settings_files(environ, place / "repository" / "deep", place / "managed")


def test_all_files_are_found_the_strongest_first(place):
    paths = [
        "home/.claude/remote-settings.json",
        "managed/managed-settings.d/20-b.json",
        "managed/managed-settings.d/10-a.json",
        "managed/managed-settings.json",
        "repository/deep/.claude/settings.local.json",
        "repository/.claude/settings.local.json",
        "repository/deep/.claude/settings.json",
        "home/.claude/settings.json",
    ]
    for path in paths:
        write(place / path)
    found = read(place)
    assert [each.path.relative_to(place).as_posix() for each in found] == paths
    assert [each.scope for each in found] == ["managed"] * 4 + ["local"] * 2 + ["project", "user"]


def test_the_folder_of_the_user_can_be_elsewhere(place):
    write(place / "config" / "settings.json")
    (found,) = read(place, CLAUDE_CONFIG_DIR=str(place / "config"))
    assert (found.scope, found.variables) == ("user", URL["env"])


@pytest.mark.parametrize(
    "settings", ["", "{", "[]", "{}", {"env": []}, {"env": {}}, {"env": {"A": 1}}, {"model": "x"}]
)
def test_what_sets_no_variable_is_left_out(place, settings):
    write(place / "home" / ".claude" / "settings.json", settings)
    assert read(place) == []


def test_a_folder_in_the_place_of_a_file_sets_nothing(place):
    (place / "home" / ".claude" / "settings.json").mkdir()
    assert read(place) == []
