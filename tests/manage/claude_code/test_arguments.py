"""The variables of a run in the arguments of Claude Code."""

import json
import stat
from pathlib import Path

import pytest

from manage.claude_code.arguments import get_given_settings, is_claude_code, passing_variables

OURS = {"ANTHROPIC_BASE_URL": "http://here"}


def pass_on(*command):
    with passing_variables(command, OURS) as passed:
        return passed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude", True),
        ("/usr/local/bin/claude", True),
        ("./claude", True),
        ("my-claude", False),
        ("claude-trace", False),
        ("/opt/claude/bin/agent", False),
        ("python", False),
    ],
)
def test_claude_code_is_known_by_its_name(name, expected):
    assert is_claude_code([name, "claude"]) is expected


def test_without_settings_of_its_own_it_gets_ours():
    assert pass_on("claude", "-p", "hi") == [
        "claude",
        "--settings",
        json.dumps({"env": OURS}),
        "-p",
        "hi",
    ]


THEIRS = {"model": "opus", "env": {"A": "ä", "ANTHROPIC_BASE_URL": "http://elsewhere"}}
MERGED = {"model": "opus", "env": {"A": "ä", "ANTHROPIC_BASE_URL": "http://here"}}


def test_text_is_merged_where_it_stands():
    text = json.dumps(THEIRS)
    first, option, merged, *others = pass_on("claude", "--settings", text, "-p") or []
    assert (first, option, others) == ("claude", "--settings", ["-p"])
    assert json.loads(merged) == MERGED
    (_, joined) = pass_on("claude", f"--settings= {text}") or []
    assert json.loads(joined.removeprefix("--settings=")) == MERGED


def test_of_several_the_last_one_counts():
    _, _, first, _, second = pass_on("claude", "--settings", "{}", "--settings", '{"a": 1}') or []
    assert first == "{}"
    assert json.loads(second) == {"a": 1, "env": OURS}


def test_what_follows_the_end_of_options_is_no_option():
    passed = pass_on("claude", "-p", "--", "--settings", "{}")
    assert passed is not None
    assert passed[1] == "--settings"
    assert passed[3:] == ["-p", "--", "--settings", "{}"]


def test_a_file_is_merged_into_one_beside_it_which_goes(tmp_path):
    given = tmp_path / "mine.json"
    given.write_text(json.dumps(THEIRS))
    with passing_variables(["claude", "--settings", str(given)], OURS) as passed:
        assert passed is not None
        made = Path(passed[2])
        assert made.parent == tmp_path, "rules in it are relative to its folder"
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
        assert json.loads(made.read_text()) == MERGED
        assert "elsewhere" not in " ".join(passed)
    assert list(tmp_path.iterdir()) == [given]
    assert json.loads(given.read_text()) == THEIRS


def test_the_merged_file_goes_also_when_the_client_fails(tmp_path):
    given = tmp_path / "mine.json"
    given.write_text("{}")
    with (
        pytest.raises(OSError, match="broken"),
        passing_variables(["claude", "--settings", str(given)], OURS),
    ):
        raise OSError("broken")
    assert list(tmp_path.iterdir()) == [given]


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"env": []}'])
def test_what_cannot_be_merged_is_left_to_claude_code(tmp_path, content):
    given = tmp_path / "mine.json"
    if content is not None:
        given.write_text(content)
    assert pass_on("claude", "--settings", str(given)) is None
    if content and content.startswith("{"):
        assert pass_on("claude", "--settings", content) is None


def test_settings_that_are_given_can_be_read(tmp_path):
    given = tmp_path / "mine.json"
    given.write_text(json.dumps(THEIRS))
    assert get_given_settings(["claude", "--settings", str(given)]) == THEIRS
    assert get_given_settings(["claude", f"--settings={json.dumps(THEIRS)}"]) == THEIRS
    assert get_given_settings(["claude", "--settings", "/nowhere"]) == {}
    assert get_given_settings(["claude"]) == {}
