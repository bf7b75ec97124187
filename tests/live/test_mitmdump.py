"""The addon is an ordinary one: stock ``mitmdump`` loads it, and it does its work there too."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from store.control.database import ControlDatabase
from store.spool import reader
from tests import ROOT
from tests.live.service import API_KEY
from tests.rawclient import RawClient, request
from tests.upstream import PATIENCE_S, Upstream, answer, kept_port, wait_until

pytestmark = pytest.mark.live
MITMDUMP = Path(sys.executable).parent / "mitmdump"


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(
    not MITMDUMP.exists(),
    reason="there is no mitmdump beside this Python; `./run.sh test` uses a Python that has it",
)
def test_stock_mitmdump_runs_the_addon(upstream: Upstream, tmp_path: Path) -> None:
    with ControlDatabase(tmp_path / "data" / "control.db") as control:
        control.set_up()
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
        "TAXIMETER_UPSTREAM_URL": upstream.url,
    }
    upstream.enqueue(answer(200, b'{"type":"message"}'))
    with (
        kept_port() as port,
        subprocess.Popen(  # noqa: S603 - the program under test
            [MITMDUMP, "-q", "--listen-host", "127.0.0.1", "-p", str(port), "-s", "addon/main.py"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as mitmdump,
    ):
        try:
            wait_until(lambda: is_listening(port), "mitmdump listening")
            with RawClient(("127.0.0.1", port)) as client:
                headers = [("Host", "x"), ("x-api-key", API_KEY), ("x-unknown", "1")]
                response = client.exchange(
                    request("POST", "/proxy/default/v1/messages", headers, b'{"model":"m"}')
                )
        finally:
            mitmdump.send_signal(signal.SIGTERM)
            mitmdump.wait(PATIENCE_S)
    assert (response.status, response.body) == (200, b'{"type":"message"}')
    (seen,) = upstream.requests
    assert seen.target == "/v1/messages"
    assert "x-unknown" not in {name.lower() for name, _ in seen.headers}
    (waiting,) = reader.find_waiting(tmp_path / "data" / "spool")
    exchange = reader.read_exchange(waiting.path)
    assert exchange is not None
    assert exchange.request_body == b'{"model":"m"}'
    assert exchange.ending.outcome == "complete"
