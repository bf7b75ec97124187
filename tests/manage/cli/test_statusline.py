"""``taximeter statusline``: the setting of Claude Code, and the line for what is on standard input."""

import json
import stat

import pytest
from click.testing import CliRunner

from manage.cli import statusline_commands
from manage.cli.main import cli
from tests.upstream import Upstream, answer, refusing_address

COMMAND = (
    '/bin/sh -c \'curl -q -sf -m 0.3 --noproxy "*" --data-binary @-'
    ' "http://127.0.0.1:8080/statusline" 2>/dev/null || :\''
)


@pytest.fixture
def settings_file(tmp_path, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "claude" / "settings.json"


def read(path):
    return json.loads(path.read_text())


def write(path, settings):
    path.parent.mkdir()
    path.write_text(json.dumps(settings))


def test_the_setting_is_written_where_there_is_no_file_yet(run, settings_file):
    result = run("statusline", "--install")
    assert result.exit_code == 0, result.output
    assert COMMAND in result.stdout
    setting = {"type": "command", "command": COMMAND, "refreshInterval": 10}
    assert read(settings_file) == {"statusLine": setting}


def test_other_settings_and_the_mode_of_the_file_stay(run, settings_file, tmp_path):
    dotfiles = tmp_path / "dotfiles.json"
    dotfiles.write_text('{"model": "opus", "env": {"A": "b"}, "hooks": {}}')
    dotfiles.chmod(0o644)
    settings_file.parent.mkdir()
    settings_file.symlink_to(dotfiles)
    assert run("statusline", "--install").exit_code == 0
    assert list(read(dotfiles)) == ["model", "env", "hooks", "statusLine"]
    assert read(dotfiles)["env"] == {"A": "b"}
    assert settings_file.is_symlink()
    assert stat.S_IMODE(dotfiles.stat().st_mode) == 0o644


def test_another_status_line_stays_without_force(run, settings_file):
    other = {"statusLine": {"type": "command", "command": "~/.claude/mine.sh"}}
    write(settings_file, other)
    result = run("statusline", "--install")
    assert result.exit_code == 1
    assert "--force replaces it" in result.output
    assert read(settings_file) == other
    assert run("statusline", "--install", "--force").exit_code == 0
    assert read(settings_file)["statusLine"]["command"] == COMMAND


def test_ours_is_replaced(run, settings_file, monkeypatch):
    run("statusline", "--install")
    monkeypatch.setenv("TAXIMETER_BASE_URL", "http://localhost:9000")
    document = json.loads(
        run("statusline", "--install", "--format", "limits,cost", "--json").stdout
    )
    assert document["path"] == str(settings_file)
    command = read(settings_file)["statusLine"]["command"]
    assert '"http://localhost:9000/statusline?parts=cost,limits"' in command
    assert document["statusLine"]["command"] == command


@pytest.mark.parametrize("content", ["{", "[]", '"text"'])
def test_a_file_that_is_no_object_is_left_as_it_is(run, settings_file, content):
    settings_file.parent.mkdir()
    settings_file.write_text(content)
    result = run("statusline", "--install")
    assert result.exit_code == 1
    assert "is left as it is" in result.output
    assert settings_file.read_text() == content


def test_a_service_that_is_elsewhere_has_no_status_line(run, settings_file, monkeypatch):
    monkeypatch.setenv("TAXIMETER_BASE_URL", "https://meter.example.org")
    result = run("statusline", "--install")
    assert result.exit_code == 1
    assert "has to be a loopback address" in result.output
    assert not settings_file.exists()


def test_options_that_mean_nothing_are_refused(run):
    assert run("statusline", "--force").exit_code == 2
    result = run("statusline", "--format", "price")
    assert result.exit_code == 2
    assert "name some of cost, cache, limits, budget" in result.output


def ask(url, monkeypatch, data_dir, *arguments, body='{"session_id": "s1"}'):
    monkeypatch.setenv("TAXIMETER_BASE_URL", url)
    monkeypatch.setattr(statusline_commands, "PATIENCE_S", 60.0)
    command = ["statusline", *arguments, "--data-dir", str(data_dir)]
    result = CliRunner().invoke(cli, command, input=body)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_line_is_what_the_service_says(monkeypatch, data_dir):
    with Upstream() as service:
        service.otherwise = answer(200, b"$1.24 \x1b[2Jx\n", [("Content-Type", "text/plain")])
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        assert ask(service.url, monkeypatch, data_dir, "--format", "cost") == "$1.24 ?[2Jx\n"
        (request,) = service.requests
        assert request.target == "/statusline?parts=cost"
        assert request.body == b'{"session_id": "s1"}'


def test_nothing_is_said_where_no_service_responds(monkeypatch, data_dir):
    with refusing_address() as address:
        assert ask(address, monkeypatch, data_dir) == ""
    with Upstream() as service:
        service.otherwise = answer(404, b"<html>what else is there</html>")
        assert ask(service.url, monkeypatch, data_dir) == ""
