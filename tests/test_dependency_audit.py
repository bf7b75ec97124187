"""The audit of what the locks pin, against a stand-in for the OSV service."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import dependency_audit

LOCK = f"""\
good==1.0 \\
    --hash=sha256:{"a" * 64}
    # via taximeter
holed==2.0 ; python_version >= '3.12' \\
    --hash=sha256:{"b" * 64}
elsewhere==3.0 ; sys_platform == 'no such platform' \\
    --hash=sha256:{"c" * 64}
"""
KNOWN = {
    "id": "PYSEC-2026-1",
    "summary": "Holes in holed",
    "affected": [
        {
            "package": {"name": "holed", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
        }
    ],
}


class _Osv(BaseHTTPRequestHandler):
    asked: list[str]

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = query["package"]["name"]
        self.asked.append(name)
        body = json.dumps({"vulns": [KNOWN]} if name == "holed" else {}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def osv() -> Iterator[tuple[str, list[str]]]:
    """The address of a service that knows one vulnerability, and the packages it was asked about."""
    asked: list[str] = []
    handler = type("Osv", (_Osv,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in take its time, and no day end meanwhile."""
    for limit in ("REACH_S", "RESPONSE_S"):
        monkeypatch.setattr(dependency_audit, limit, 60)
    monkeypatch.setattr(dependency_audit, "find_day", lambda: "2026-01-02")


def audit(folder: Path, service: str, lock: str = LOCK) -> int:
    (folder / "lock").write_text(lock)
    given = ["--lock", str(folder / "lock"), "--stamp", str(folder / "stamp")]
    return dependency_audit.main([*given, "--service", service])


@pytest.mark.slow
def test_a_known_vulnerability_fails_with_the_version_that_mends_it(
    tmp_path: Path, osv: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    service, asked = osv
    assert audit(tmp_path, service) == 1
    assert asked == ["pip", "good", "holed"]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "holed 2.0 has PYSEC-2026-1, fixed in 2.1: Holes in holed"
    assert "--upgrade-package" in said[1]
    assert not (tmp_path / "stamp").exists(), "it is asked again"


def test_a_service_that_cannot_be_reached_is_a_line_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert audit(tmp_path, f"http://127.0.0.1:{port}/v1/query") == 0
    said = capsys.readouterr()
    assert said.out == "Dependency audit: 127.0.0.1 could not be reached, skipped.\n"
    assert said.err == ""
    assert not (tmp_path / "stamp").exists(), "it is tried again"


def test_a_lock_that_passed_is_not_audited_again_on_the_same_day(
    tmp_path: Path, osv: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, asked = osv
    clean = {"dependencies": [{"name": "good", "version": "1.0", "vulns": []}]}
    monkeypatch.setattr(dependency_audit, "_audit", lambda _lock, _service: clean)
    assert [audit(tmp_path, service) for _ in range(2)] == [0, 0]
    assert asked == ["pip"]
    assert audit(tmp_path, service, LOCK + "# changed\n") == 0
    assert asked == ["pip", "pip"]
    monkeypatch.setattr(dependency_audit, "find_day", lambda: "2026-01-03")
    assert audit(tmp_path, service, LOCK + "# changed\n") == 0
    assert asked == ["pip", "pip", "pip"]
