"""The status line of a running service, by the line for ``sh`` that is installed."""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from manage.cli import statusline_commands
from tests.live.clients.programs import CLAUDE, needs_claude_code
from tests.live.command import call_here, environment
from tests.live.messages import MODEL, Answer, text
from tests.live.service import API_KEY, REQUEST_HEADERS, Endpoint
from tests.rawclient import request
from tests.upstream import PATIENCE_S, refusing_address, wait_until

needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None, reason="there is no curl; apt-get install curl brings it"
)
SESSION = "0e3f7d5a-6d2f-4a0e-9f3d-3f6d5b1d7c11"
BODY = json.dumps({"session_id": SESSION, "cost": {"total_cost_usd": 1}}).encode()
_CONTROL = re.compile(rb"\x1b\[[0-9;?>]*[a-zA-Z]|\x1b\][^\x07]*\x07|\s")
REPLY = Answer(content=[text("Done.")])


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the installed line wait for the service; for how long it does otherwise is in tests/manage/cli."""
    monkeypatch.setattr(statusline_commands, "PATIENCE_S", 60)


@pytest.fixture
def command(live: Endpoint, tmp_path: Path) -> str:
    """The command that is installed for the service."""
    environ = environment(
        live.service,
        CLAUDE_CONFIG_DIR=str(tmp_path),
        TAXIMETER_BASE_URL=f"http://{live.service.host}",
    )
    done = call_here(("statusline", "--install", "--format", "cost,cache"), environ)
    assert done.returncode == 0, done.stderr
    found: str = json.loads((tmp_path / "settings.json").read_text())["statusLine"]["command"]
    return found


def run(command: str, body: bytes = BODY) -> str:
    """Return what a command prints, which a shell runs as Claude Code has it run."""
    done = subprocess.run(  # noqa: S602 - a setting is a line for a shell
        command,
        shell=True,
        input=body,
        capture_output=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:1"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def make_call(live: Endpoint) -> None:
    live.upstream.enqueue(REPLY.script(streamed=False))
    headers = (*REQUEST_HEADERS, ("x-claude-code-session-id", SESSION))
    body = json.dumps({"model": MODEL, "max_tokens": 9, "messages": []}).encode()
    path = f"/proxy/{live.slug}/v1/messages"
    assert live.service.send(request("POST", path, headers, body)).status == 200


class Terminal:
    """A terminal in which Claude Code runs, with the status line installed; a thread reads what it shows."""

    def __init__(self, live: Endpoint, folder: Path) -> None:
        """Start it with a prompt, in a folder that it trusts and with a credential that is approved."""
        home, work = folder / "home", folder / "work"
        for each in (home / ".claude", work):
            each.mkdir(parents=True)
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "projects": {str(work): {"hasTrustDialogAccepted": True}},
            "customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []},
        }
        (home / ".claude.json").write_text(json.dumps(state))
        address = f"http://{live.service.host}"
        environ = environment(live.service, HOME=str(home), TAXIMETER_BASE_URL=address)
        assert call_here(("statusline", "--install"), environ).returncode == 0
        self._shown = b""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(  # noqa: S603 - the client that is tested
            [str(CLAUDE), "--model", MODEL, "hello"],
            cwd=work,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "ANTHROPIC_BASE_URL": f"{address}/proxy/{live.slug}",
                "ANTHROPIC_API_KEY": API_KEY,
                "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        os.close(self._ours)

    def wait_for(self, words: str) -> None:
        """Wait until it has shown these words, wherever the cursor was in between."""
        shown = ("".join(words.split())).encode()
        wait_until(lambda: shown in _CONTROL.sub(b"", self._shown), words, patience_s=PATIENCE_S)

    def _read(self) -> None:
        with suppress(OSError):  # the end of the process
            while shown := os.read(self._ours, 65_536):
                self._shown += shown


@needs_curl
def test_the_installed_line_says_what_the_session_cost(live: Endpoint, command: str) -> None:
    make_call(live)
    (row,) = live.service.wait_for_rows(1, live.slug)
    expected = f"${row['cost_cents'] / 100:.2f} · cache "
    live.service.wait_until(lambda: run(command).startswith(expected), "the cost of the session")
    assert run(command).endswith("\n")
    assert run(command, b"[" * 60_000) == ""
    assert run(command, b" " * 100_000) == ""


@needs_curl
def test_the_installed_line_is_silent_where_nobody_responds(live: Endpoint, command: str) -> None:
    with refusing_address() as address:
        assert run(command.replace(f"http://{live.service.host}", address)) == ""
    assert run(command.replace("/statusline", "/elsewhere")) == ""


@needs_curl
@needs_claude_code
def test_claude_code_shows_the_line_below_a_session(live: Endpoint, tmp_path: Path) -> None:
    live.upstream.otherwise = REPLY.script(streamed=True)
    with Terminal(live, tmp_path) as terminal:
        terminal.wait_for("Done.")
        live.service.wait_for_rows(1, live.slug)
        terminal.wait_for(" · cache ")
    live.upstream.reset()
