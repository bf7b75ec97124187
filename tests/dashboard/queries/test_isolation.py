"""The isolation of a query process, tried in a process of its own: it cannot be undone."""

import itertools
import os
import subprocess
import sys

import pytest

from dashboard.queries import isolation
from tests import ROOT

pytestmark = pytest.mark.live


def run_confined(traces, code):
    """Run code behind the hook and the limits; returns what it printed, or the error's last line."""
    program = (
        "import os, resource, socket, sqlite3, subprocess, sys\n"
        "from pathlib import Path\n"
        "from dashboard.queries import isolation\n"
        "isolation.limit_resources()\n"
        "isolation.refuse_other_files(Path(sys.argv[1]))\n" + code
    )
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program, str(traces)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    return (done.stdout or done.stderr.strip().rpartition("\n")[2]).strip()


@pytest.fixture
def traces(tmp_path):
    folder = tmp_path / "data" / "traces"
    (folder / "org").mkdir(parents=True)
    (folder / "org" / "traces.db").write_bytes(b"")
    (tmp_path / "data" / "control.db").write_bytes(b"")
    (folder / "link.db").symlink_to(tmp_path / "data" / "control.db")
    return folder


REFUSED = [
    "open(sys.argv[1] + '/../control.db')",
    "open(sys.argv[1] + '/link.db')",
    "os.open(sys.argv[1] + '/../control.db', os.O_RDONLY)",
    "open('/etc/passwd')",
    "open('/proc/self/environ')",
    "open(sys.argv[1] + '/org/new', 'w')",
    "open(sys.argv[1] + '/org/traces.db', 'r+')",
    "sqlite3.connect(sys.argv[1] + '/../control.db')",
    "sqlite3.connect('file:' + sys.argv[1] + '/%2e%2e/control.db?mode=ro', uri=True)",
    "sqlite3.connect('file:' + sys.argv[1] + '/link.db?mode=ro', uri=True)",
    "subprocess.run(['true'])",
    "os.system('true')",
    "os.execv('/bin/true', ['true'])",
    "os.kill(os.getppid(), 0)",
    "os.remove(sys.argv[1] + '/org/traces.db')",
    "socket.create_connection(('127.0.0.1', 9))",
]


def test_python_code_in_a_query_process_reaches_nothing_else(traces, subtests):
    code = (
        f"for code in {REFUSED!r}:\n"
        "    try:\n        exec(code)\n        print('it could')\n"
        "    except PermissionError as error:\n        print(error)"
    )
    told = run_confined(traces, code).splitlines()
    for each, words in itertools.zip_longest(REFUSED, told, fillvalue=""):
        with subtests.test(each):
            assert "a query process may" in words


@pytest.mark.parametrize("data", ["repository/data", "repository", "environment/data"])
def test_what_lies_beside_the_traces_is_refused_wherever_they_are(tmp_path, monkeypatch, data):
    """The data directory is in the repository unless a setting says otherwise."""
    repository, environment = tmp_path / "repository", tmp_path / "environment"
    monkeypatch.setattr(isolation, "_CODE", (repository / "store", environment))
    traces = tmp_path / data / "traces"
    check = isolation.make_audit_hook(traces)
    refused = [
        traces.parent / "control.db",
        traces.parent / "spool" / "org" / "1",
        repository / ".env",
        repository / ".git" / "config",
    ]
    for path in refused:
        with pytest.raises(PermissionError):
            check("open", (str(path), "r", os.O_RDONLY))
    for path in (traces / "org" / "traces.db", repository / "store" / "a.py", environment / "b.py"):
        check("open", (str(path), "r", os.O_RDONLY))


@pytest.mark.parametrize("name", ["data/control.db", "data/spool/1", ".env", ".git/config"])
def test_the_default_installation_keeps_its_secrets_from_queries(name):
    check = isolation.make_audit_hook(ROOT / "data" / "traces")
    with pytest.raises(PermissionError):
        check("open", (str(ROOT / name), "r", os.O_RDONLY))


def test_traces_and_code_can_still_be_read(traces):
    code = (
        "open(sys.argv[1] + '/org/traces.db').close()\n"
        "sqlite3.connect('file:' + sys.argv[1] + '/org/traces.db?mode=ro', uri=True).close()\n"
        "open(isolation.__file__).close(); import wave\n"
        "print('fine')"
    )
    assert run_confined(traces, code) == "fine"


def test_the_kernel_bounds_memory_files_and_cores(traces):
    code = (
        "try:\n    bytearray(2 << 30)\nexcept MemoryError:\n    print('no memory')\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[1],"
        " resource.getrlimit(resource.RLIMIT_FSIZE)[1], os.nice(0))"
    )
    expected = f"no memory\n0 {isolation.MAX_FILE_BYTES} {os.nice(0) + isolation.NICENESS}"
    assert run_confined(traces, code) == expected


def test_sqlite_says_so_before_the_process_runs_out_of_memory(traces):
    code = (
        "db = sqlite3.connect('file:' + sys.argv[1] + '/org/traces.db?mode=ro', uri=True)\n"
        "print(db.execute('pragma hard_heap_limit').fetchone()[0])"
    )
    assert run_confined(traces, code) == str(isolation.MAX_HEAP_BYTES)
