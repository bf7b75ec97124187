"""The check of the variables of Claude Code."""

import json
import os

import pytest

from manage.claude_code.variables import BASE_URL, FLAG, TOOL_SEARCH
from manage.doctor.claude_code_check import check_claude_code, read_version
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.management import Management

OURS = "http://127.0.0.1:8080/proxy/default"
VENDOR = "https://api.anthropic.com"


@pytest.fixture
def check(data_dir, tmp_path):
    """Returns verdicts with messages and advices."""

    def check(version="2.1.330 (Claude Code)", upstream=VENDOR, base_url=None, **environ):
        variables = {
            "TAXIMETER_DATA_DIR": str(data_dir),
            "TAXIMETER_UPSTREAM_URL": upstream,
            "TAXIMETER_UPSTREAMS": "eu=https://eu.example.org,same=https://api.anthropic.com",
        }
        if base_url:
            variables["TAXIMETER_BASE_URL"] = base_url
        found = check_claude_code(
            Settings.from_env(variables),
            {"HOME": str(tmp_path)} | environ,
            tmp_path,
            tmp_path / "managed",
            lambda: version,
        )
        return [(each.verdict, f"{each.message}; {each.advice}") for each in found]

    return check


def verdicts(found):
    return [verdict for verdict, _ in found]


def test_where_nobody_has_set_anything_nothing_is_said(check):
    assert check() == []


def test_where_each_is_set_is_said_without_its_value(check, tmp_path):
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    secret = "http://ann:secret@127.0.0.1:1"
    settings.write_text(json.dumps({"env": {BASE_URL: secret}}))
    ((verdict, message),) = check(**{BASE_URL: OURS, TOOL_SEARCH: "true"})
    assert verdict == "ok"
    assert message.startswith(
        f"{BASE_URL} is set in {settings}, the environment; {TOOL_SEARCH} is set in the environment;"
        " of several places the first counts"
    )
    assert "secret" not in message


def test_the_remote_control_is_a_note_where_the_base_url_is_ours(check):
    found = check(**{BASE_URL: OURS, FLAG: "1", TOOL_SEARCH: "true"})
    assert verdicts(found) == ["ok", "note"]
    assert "Remote Control does not work" in found[1][1]


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8080/proxy/default/",
        "http://127.0.0.1:8080/proxy/default/run/17",
        "https://meter.example.org/proxy/default",
    ],
)
def test_our_base_url_is_known_in_each_of_its_forms(check, url):
    found = check(base_url="https://meter.example.org", **{BASE_URL: url, FLAG: "1"})
    assert verdicts(found) == ["ok", "note"]


def test_the_flag_with_another_upstream_is_wrong(check, data_dir):
    found = check(upstream="https://gateway.example.org", **{BASE_URL: OURS, FLAG: "1"})
    assert verdicts(found) == ["ok", "wrong", "note"]
    assert f"calls through default do not go to {VENDOR}" in found[1][1]
    assert found[1][1].endswith("; unset it")
    off = check(upstream="https://gateway.example.org", **{BASE_URL: OURS, FLAG: "0"})
    assert verdicts(off) == ["ok", "note"]
    with ControlDatabase(data_dir / "control.db") as control:
        management = Management(control, data_dir, upstreams={"eu", "same"})
        for name in ("eu", "same"):
            management.create_endpoint(management.local_caller(), name, name, upstream=name)
    of_own = {name: OURS.replace("default", name) for name in ("eu", "same")}
    assert "wrong" in verdicts(check(**{BASE_URL: of_own["eu"], FLAG: "1"}))
    other = check(upstream="https://gateway.example.org", **{BASE_URL: of_own["same"], FLAG: "1"})
    assert "wrong" not in verdicts(other)


@pytest.mark.parametrize("url", [None, "https://gateway.example.org", "http://[broken", VENDOR])
def test_the_flag_without_our_base_url_is_wrong(check, url):
    found = check(**{FLAG: "1"} | ({BASE_URL: url} if url else {}))
    assert verdicts(found) == ["ok", "wrong"]
    assert "does not lead to this service" in found[1][1]


def test_a_proxy_that_stands_before_our_base_url_is_wrong(check):
    proxied = {BASE_URL: OURS, FLAG: "1", "HTTPS_PROXY": "http://proxy.example.org:3128"}
    found = check(**proxied)
    assert verdicts(found) == ["ok", "wrong", "note"]
    assert "NO_PROXY" in found[1][1]
    assert verdicts(check(**proxied, NO_PROXY="127.0.0.1")) == ["ok", "note"]


def test_another_service_like_this_one_is_a_note(check):
    found = check(**{BASE_URL: "https://meter.example.org/proxy/team", FLAG: "1"})
    assert verdicts(found) == ["ok", "note"]


@pytest.mark.parametrize(
    ("version", "is_old"),
    [
        ("2.1.304 (Claude Code)", True),
        ("2.1.305 (Claude Code)", False),
        ("2.0.400 (Claude Code)", True),
        ("3.0.1", False),
        ("what?", False),
        (None, False),
    ],
)
def test_an_old_client_without_both_variables_is_a_note(check, version, is_old):
    found = check(version, **{BASE_URL: OURS})
    assert [message for _, message in found if "has less behind" in message] == (
        [found[1][1]] if is_old else []
    )
    if is_old:
        assert f"{FLAG}=1 and {TOOL_SEARCH}=true" in found[1][1]
    assert len(check(version, **{BASE_URL: OURS, TOOL_SEARCH: "true"})) == 2


def test_the_version_is_that_of_the_client_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    client = tmp_path / "claude"
    client.write_text('#!/bin/sh\necho "2.1.7 (Claude Code)"\n')
    client.chmod(0o755)
    assert read_version() == "2.1.7 (Claude Code)"
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_version() is None
