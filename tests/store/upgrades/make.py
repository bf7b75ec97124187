"""Stores the databases that a release writes, for the tests of upgrades.

    python -m tests.store.upgrades.make

It runs the service in front of a scripted upstream, makes the calls of ``calls.py``, stops it, and writes
``traces-VERSION.sql`` and ``control-VERSION.sql`` beside this file. What is there is left alone.
"""

import http.client
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests import ROOT
from tests.store.upgrades.calls import CALLS, Call
from tests.store.upgrades.dumps import FOLDER, make_dump

PATIENCE_S = 60.0
# The recorder works on calls in its pauses: savings ten seconds after a session's last call.
AFTERWARDS_S = 14.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = iter(CALLS)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        call = next(self.calls)
        self.send_response(call.status)
        self.send_header("content-type", call.content_type)
        self.send_header("request-id", "req_011CUpgrade")
        if call.is_cut:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(call.response), call.response))
            self.wfile.flush()
            self.close_connection = True
            return
        self.send_header("content-length", str(len(call.response)))
        self.end_headers()
        self.wfile.write(call.response)

    def log_message(self, *_: object) -> None:
        pass


def store() -> None:
    """Store the databases of this version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as upstream:
            threading.Thread(target=upstream.serve_forever, daemon=True).start()
            _run_service(data_dir, f"http://127.0.0.1:{upstream.server_port}")
            upstream.shutdown()
        (traces,) = data_dir.glob("traces/*/traces.db")
        for kind, path in (("traces", traces), ("control", data_dir / "control.db")):
            target = FOLDER / f"{kind}-{version}.sql"
            if not target.exists():
                target.write_text(make_dump(path))
                print(f"{target.name}: {target.stat().st_size} bytes")


def _run_service(data_dir: Path, upstream_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(data_dir.parent),
        "PYTHONPATH": str(ROOT),
        "TAXIMETER_DATA_DIR": str(data_dir),
        "TAXIMETER_LISTEN": f"127.0.0.1:{port}",
        "TAXIMETER_UPSTREAM_URL": upstream_url,
    }
    command = [sys.executable, "-P", "-m", "manage.cli.main", "up"]
    service = subprocess.Popen(command, env=environ, cwd=data_dir.parent)  # noqa: S603 - our own program
    try:
        _wait_until_it_listens(service, port)
        for number, call in enumerate(CALLS, 1):
            _send(port, call)
            _wait_until_recorded(data_dir, number)
        time.sleep(AFTERWARDS_S)
    finally:
        service.terminate()
        service.wait(PATIENCE_S)


def _wait_until_it_listens(service: "subprocess.Popen[bytes]", port: int) -> None:
    ends_at_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at_s and service.poll() is None:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError("the service does not come up")


def _send(port: int, call: Call) -> None:
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": "made-up",
        "user-agent": "claude-cli/2.1.0 (external, cli)",
    }
    if call.session:
        headers["x-claude-code-session-id"] = call.session
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", "/proxy/default/v1/messages", call.request, headers)
        try:
            connection.getresponse().read()
        except (http.client.IncompleteRead, ConnectionError):
            if not call.is_cut:
                raise


def _wait_until_recorded(data_dir: Path, count: int) -> None:
    ends_at_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at_s:
        for path in data_dir.glob("traces/*/traces.db"):
            try:
                with closing(sqlite3.connect(path)) as connection:
                    if connection.execute("select count(*) from usage").fetchone()[0] >= count:
                        return
            except sqlite3.OperationalError:
                pass  # it is being made
        time.sleep(0.1)
    raise TimeoutError(f"call {count} is not recorded")


if __name__ == "__main__":
    store()
