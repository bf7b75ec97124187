"""The start of a client of a run."""

import json

import pytest

from manage.claude_code.starting import starting

URL = "http://here/proxy/default/run/1"


@pytest.fixture
def begin(tmp_path):
    """Starts a client; returns its command, its variables, and the lines that were printed."""

    def begin(*command, as_direct=True, **environ):
        lines: list[str] = []
        environ = {"HOME": str(tmp_path)} | environ
        with starting(
            command,
            environ,
            tmp_path,
            URL,
            lines.append,
            as_direct=as_direct,
            managed_folder=tmp_path / "managed",
        ) as start:
            return list(start.command), dict(start.environ), lines

    return begin


def test_any_client_has_the_variables_in_its_environment(begin, tmp_path):
    command, environ, lines = begin("python", "agent.py", PATH="/bin", ANTHROPIC_BASE_URL="x")
    assert (command, lines) == (["python", "agent.py"], [])
    assert environ == {
        "HOME": str(tmp_path),
        "PATH": "/bin",
        "ANTHROPIC_BASE_URL": URL,
        "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
        "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1",
        "ENABLE_TOOL_SEARCH": "true",
    }


def test_what_the_environment_says_of_hints_stays(begin):
    _, environ, _ = begin("python", as_direct=False, CLAUDE_CODE_GATEWAY_HINT_HEADERS="0")
    assert environ["CLAUDE_CODE_GATEWAY_HINT_HEADERS"] == "0"
    assert "ENABLE_TOOL_SEARCH" not in environ


def test_claude_code_has_them_in_its_settings_too_and_files_are_named(begin, tmp_path):
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(
        '{"env": {"ANTHROPIC_BASE_URL": "http://elsewhere", "ENABLE_TOOL_SEARCH": "false"}}'
    )
    command, environ, lines = begin("claude", "-p", "hi")
    assert json.loads(command[2]) == {
        "env": {"ANTHROPIC_BASE_URL": URL, "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"}
    }
    assert environ["ANTHROPIC_BASE_URL"] == URL
    assert lines == [f"{settings} sets ANTHROPIC_BASE_URL; this run does not use it."]


def test_settings_that_cannot_be_merged_are_passed_as_they_are_and_that_is_said(begin):
    command, environ, lines = begin("claude", "--settings", "{broken")
    assert command == ["claude", "--settings", "{broken"]
    assert environ["ANTHROPIC_BASE_URL"] == URL
    assert lines[0].startswith("--settings cannot be merged")
