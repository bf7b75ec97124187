"""The variables that a run sets for Claude Code, and those that it leaves to others."""

from pathlib import Path

import pytest

from manage.claude_code.settings_files import SettingsFile
from manage.claude_code.variables import (
    BASE_URL,
    FLAG,
    HINTS,
    TOOL_SEARCH,
    Sources,
    choose_variables,
    describe_others,
)

URL = "http://127.0.0.1:8080/proxy/default/run/1"


def file(scope, **variables):
    return SettingsFile(path=Path(f"/{scope}/settings.json"), scope=scope, variables=variables)


def choose(environ=None, files=(), given=None, *, as_direct=True):
    return choose_variables(Sources.make(environ or {}, files, given), URL, as_direct=as_direct)


def test_a_run_to_the_vendor_has_the_variables_of_a_client_without_a_proxy():
    assert choose() == {BASE_URL: URL, HINTS: "1", FLAG: "1", TOOL_SEARCH: "true"}


def test_a_run_to_another_upstream_or_one_told_not_to_has_not():
    assert choose(as_direct=False) == {BASE_URL: URL, HINTS: "1"}


@pytest.mark.parametrize("name", [FLAG, TOOL_SEARCH])
@pytest.mark.parametrize("value", ["", "0", "1", "auto:10", "false"])
def test_neither_is_set_where_somebody_has_set_one(name, value):
    expected = {BASE_URL: URL, HINTS: "1"}
    assert choose({name: value}) == expected
    assert choose(given={name: value}) == expected
    for scope in ("managed", "local", "project", "user"):
        assert choose(files=[file(scope, **{name: value})]) == expected


@pytest.mark.parametrize("where", ["environ", "given", "files"])
def test_what_somebody_says_of_hints_stands(where):
    said = {HINTS: "0"}
    places = {"environ": said, "given": said, "files": [file("user", **said)]}
    assert HINTS not in choose(**{where: places[where]}, as_direct=False)


def test_managed_settings_beat_the_option_which_beats_other_files_and_the_environment():
    every = [file("managed", **{BASE_URL: "m"}), file("local", **{BASE_URL: "l"})]
    environ = {BASE_URL: "e"}
    assert Sources.make(environ, every, {BASE_URL: "g"}).find(BASE_URL) == "m"
    assert Sources.make(environ, every[1:], {BASE_URL: "g"}).find(BASE_URL) == "g"
    assert Sources.make(environ, every[1:]).find(BASE_URL) == "l"
    assert Sources.make(environ, []).find(BASE_URL) == "e"
    assert Sources.make({}, []).find(BASE_URL) is None


def test_what_else_sets_a_base_url_is_named():
    files = [file(scope, **{BASE_URL: "x"}) for scope in ("managed", "project", "user")]
    sources = Sources.make({BASE_URL: "replaced"}, files, {BASE_URL: "given"})
    lines = describe_others(sources, is_beaten=True)
    assert [line.partition(" sets ")[0] for line in lines] == [
        "/managed/settings.json",
        "--settings",
        "/project/settings.json",
        "/user/settings.json",
    ]
    assert "managed settings, which nothing beats" in lines[0]
    assert lines[3] == "/user/settings.json sets ANTHROPIC_BASE_URL; this run does not use it."
    (line,) = describe_others(Sources.make({}, files[2:]), is_beaten=False)
    assert line.endswith("calls of Claude Code go there.")
    assert describe_others(Sources.make({BASE_URL: "replaced"}, []), is_beaten=True) == []


@pytest.mark.parametrize(
    ("value", "is_named"), [("1", True), ("true", True), ("0", False), ("", False)]
)
def test_another_provider_is_named(value, is_named):
    lines = describe_others(Sources.make({"CLAUDE_CODE_USE_BEDROCK": value}, []), is_beaten=True)
    assert bool(lines) is is_named
    if is_named:
        assert lines[0].startswith(
            "the environment sets CLAUDE_CODE_USE_BEDROCK: calls of Claude Code"
        )


def test_a_provider_that_a_stronger_file_turns_off_is_not_named():
    off = [file("user", CLAUDE_CODE_USE_VERTEX="0")]
    assert describe_others(Sources.make({"CLAUDE_CODE_USE_VERTEX": "1"}, off), is_beaten=True) == []


def test_a_client_with_a_proxy_does_not_ask_it_for_this_machine():
    exempt = "intern.example,localhost,127.0.0.1,::1"
    environ = {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "intern.example"}
    chosen = choose(environ)
    assert (chosen["NO_PROXY"], chosen["no_proxy"]) == (exempt, exempt)
    chosen = choose(files=[file("user", http_proxy="http://p:3128", NO_PROXY="intern.example")])
    assert chosen["no_proxy"] == exempt
    assert "NO_PROXY" not in choose({"NO_PROXY": "intern.example"}), "there is no proxy"
    sources = Sources.make(environ, [])
    elsewhere = "https://meter.example.org/proxy/default/run/1"
    assert "NO_PROXY" not in choose_variables(sources, elsewhere, as_direct=False)
