"""The process itself, with extensions that do what they should not."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import orjson
import pytest

from runtime.extension_states import ExtensionStates
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests import ROOT
from tests.store.traffic import make_entry
from tests.upstream import wait_until

GOOD = """
import json, os

@hookimpl
def calls_were_stored(organization_id, calls):
    with open(os.environ["TOLD"], "a") as file:
        file.write(json.dumps([organization_id, calls]) + "\\n")
"""
LOADING = {"broken": "import nothing_that_is_there", "endless": "while True: pass"}
# The process has a low priority, and the good one must do with it, too, on a busy machine.
PATIENCE_S = 4.0
CALLED = {
    "raising": "raise ValueError('it is expensive')",
    "hanging": "import signal; signal.pause()",
    "ending": "import os; os._exit(3)",
    "exiting": "import sys; sys.exit('enough')",
}


@pytest.fixture
def start(tmp_path, folder):
    """Starts the process; it has ended when the test has."""
    processes = []

    def start():
        environ = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
            "TAXIMETER_EXTENSIONS": str(folder),
            "TOLD": str(tmp_path / "told"),
        }
        command = [sys.executable, "-m", "manage.third_party", "--patience", f"{PATIENCE_S}"]
        processes.append(subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL))  # noqa: S603 - our own program
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def traces(tmp_path):
    with TraceDatabase(trace_path(tmp_path / "data", "org_1")) as traces:
        yield traces


@pytest.mark.live
def test_what_does_not_load_raises_hangs_or_ends_is_named_and_left_out_and_the_others_go_on(
    tmp_path, write, start, traces
):
    write("good", GOOD)
    for name, text in LOADING.items():
        write(name, text)
    for name, text in CALLED.items():
        write(name, f"@hookimpl\ndef calls_were_stored(calls):\n    {text}")

    def read_problems():
        states = ExtensionStates.read(tmp_path / "data").extensions
        return {each.name: each.problem for each in states if each.problem is not None}

    def count_begun():
        path = tmp_path / "data" / "extensions.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(path)) as db, suppress(sqlite3.OperationalError):
            return db.execute("select count(*) from collectors").fetchone()[0]
        return 0

    process = start()
    ids = []

    def go_on(until):
        """Start it again as often as it ends, as the supervisor does."""
        nonlocal process
        if process.poll() is not None:
            process = start()
        return until()

    wait_until(
        lambda: go_on(lambda: read_problems().keys() >= LOADING.keys()), "what cannot be loaded"
    )
    wait_until(
        lambda: go_on(count_begun) == 1 + len(LOADING) + len(CALLED),
        "the positions at which all begin",
    )
    for _ in range(2):
        entry = make_entry()
        traces.insert([entry])
        ids.append(entry.entry_id)

        def is_told():
            told = tmp_path / "told"
            lines = told.read_text().splitlines() if told.exists() else []
            found = [call["entry_id"] for line in lines for call in orjson.loads(line)[1]]
            return found == ids

        wait_until(lambda: go_on(is_told), "the calls at the good extension, each once")
    wait_until(
        lambda: go_on(lambda: read_problems().keys() >= LOADING.keys() | CALLED.keys()),
        "all others to be left out",
    )
    problems = read_problems()
    assert problems.keys() == LOADING.keys() | CALLED.keys()
    assert problems["broken"].startswith("ModuleNotFoundError in loading")
    assert problems["raising"] == "ValueError in calls_were_stored: it is expensive"
    assert f"did not return from calls_were_stored within {PATIENCE_S:g} s" in problems["hanging"]
