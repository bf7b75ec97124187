"""The example of docs/extensions.md, built, installed and run; and one that fails beside it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests import ROOT
from tests.live.command import call_here, environment
from tests.live.conftest import make_new_endpoint
from tests.live.service import REQUEST_HEADERS, Service
from tests.upstream import Upstream, answer, message_json

_CODE = re.compile(r"^```(python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAX_LINES = 60
FAILING = """
import pluggy

@pluggy.HookimplMarker("taximeter")
def calls_were_stored(calls):
    raise ValueError("https://chat.example/secret")
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder of packages in which the example is installed as people install it."""
    code = dict(_CODE.findall((ROOT / "docs" / "extensions.md").read_text()))
    assert code["python"].count("\n") <= MAX_LINES
    package, target = tmp_path / "package", tmp_path / "packages"
    package.mkdir()
    (package / "expensive_sessions.py").write_text(code["python"])
    (package / "pyproject.toml").write_text(code["toml"])
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # What it needs is here: the tests have no network.
    alone = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *alone, str(package)], check=True)  # noqa: S603 - our own program
    return target


@pytest.fixture
def chat() -> Iterator[tuple[str, list[str]]]:
    """A chat with what it was told."""
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", told
        server.shutdown()
        thread.join()


def test_the_example_of_the_documentation_tells_a_chat_and_one_that_fails_harms_nobody(
    tmp_path: Path, upstream: Upstream, installed: Path, chat: tuple[str, list[str]]
) -> None:
    url, told = chat
    folder = tmp_path / "extensions"
    folder.mkdir()
    (folder / "failing.py").write_text(FAILING)
    service = Service(tmp_path, upstream.url, EXTENSIONS=str(folder))
    service.environment |= {
        "PYTHONPATH": f"{ROOT}:{installed}",
        "CHAT_WEBHOOK_URL": url,
        "EXPENSIVE_SESSION_USD": "0.001",
    }
    with service:
        endpoint = make_new_endpoint(service, upstream)
        service.wait_until(
            lambda: json.loads(service.get("/healthz").body).get("extensions"),
            "the extensions on /healthz",
        )
        body = message_json(output_tokens=50)
        upstream.enqueue(answer(200, body=body), answer(200, body=body))
        headers = (*REQUEST_HEADERS, ("x-claude-code-session-id", "s-1"))
        for _ in range(2):  # each costs less than the limit, both together more
            assert endpoint.send(endpoint.message(headers=headers)).status == 200
        service.wait_until(lambda: told, "the message to the chat")
        assert told == [f"Session s-1 of {endpoint.slug} has cost $0.00."]
        assert len(endpoint.rows()) == 2
        problem = "ValueError in calls_were_stored: https://chat.example/secret"
        expected = {"expensive_sessions": "ok", "failing": f"left out: {problem}"}
        service.wait_until(
            lambda: json.loads(service.get("/healthz").body)["extensions"] == expected,
            "the one that failed on /healthz",
        )
        service.wait_healthy()
        line = "The extension failing is left out"
        service.wait_until(lambda: line in service.errors, "its line in the log")
        doctor = call_here(("doctor",), environment(service))
        assert doctor.returncode == 1
        assert f"is left out: {problem}" in doctor.stdout
