"""Stores the databases that a release writes, for the tests of upgrades.

    python -m tests.store.upgrades.make

It runs the service in front of a scripted upstream, makes the calls of ``calls.py``, stops it, and writes
``traces-VERSION.sql`` and ``control-VERSION.sql`` beside this file. What is there is left alone.
"""

import tempfile
import time
import tomllib
from pathlib import Path

from tests import ROOT
from tests.live.service import REQUEST_HEADERS, Service
from tests.rawclient import Headers, request
from tests.store.upgrades.calls import CALLS, Call
from tests.store.upgrades.dumps import FOLDER, make_dump
from tests.upstream import CLOSE, Script, Upstream, answer, chunk, head

# The recorder works on calls in its pauses: savings ten seconds after a session's last call.
AFTERWARDS_S = 14.0


def store() -> None:
    """Store the databases of this version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with tempfile.TemporaryDirectory() as folder, Upstream() as upstream:
        with Service(Path(folder), upstream.url) as service:
            for number, call in enumerate(CALLS, 1):
                upstream.enqueue(_respond(call))
                headers = _make_headers(call)
                service.send(request("POST", "/proxy/default/v1/messages", headers, call.request))
                service.wait_for_rows(number)
            time.sleep(AFTERWARDS_S)
            service.terminate()
        (traces,) = service.data_dir.glob("traces/*/traces.db")
        for kind, path in (("traces", traces), ("control", service.data_dir / "control.db")):
            target = FOLDER / f"{kind}-{version}.sql"
            if not target.exists():
                target.write_text(make_dump(path))
                print(f"{target.name}: {target.stat().st_size} bytes")


def _respond(call: Call) -> Script:
    headers = [("content-type", call.content_type), ("request-id", "req_011CUpgrade")]
    if call.is_cut:
        chunks = head(call.status, [*headers, ("transfer-encoding", "chunked")])
        return Script((chunks, chunk(call.response), CLOSE))
    return answer(call.status, call.response, headers)


def _make_headers(call: Call) -> Headers:
    own = [("user-agent", "claude-cli/2.1.0 (external, cli)")]
    if call.session:
        own.append(("x-claude-code-session-id", call.session))
    return [*REQUEST_HEADERS, *own]


if __name__ == "__main__":
    store()
