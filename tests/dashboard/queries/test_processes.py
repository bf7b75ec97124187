"""The choice of the processes to kill, with processes that only listen."""

import errno
import os
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from types import SimpleNamespace

import psutil
import pytest

from dashboard.queries import client, processes as processes_module
from dashboard.queries.processes import NoProcessError, Processes
from dashboard.queries.query_proxy import QueryProxy
from tests.dashboard.queries.pool import ask

pytestmark = pytest.mark.live

NOBODY = 100_000_000  # no kernel gives such a pid


@pytest.fixture
def bystander():
    """A process that is no query process."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def stale(tmp_path, monkeypatch, bystander):
    """The folder of a pool that was killed, whose process's number is another's by now."""
    monkeypatch.chdir(tmp_path)
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(f"{bystander.pid}.sock")
    return tmp_path


@contextmanager
def listening(folder, process):
    """Let it look as if the process could be asked."""
    (folder / f"{process.pid}.sock").unlink()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(f"{process.pid}.sock")
        listener.listen()
        yield


def is_running(process):
    """Return whether nothing has killed it: it then ends by itself when it is told to."""
    process.communicate(b"\n")
    return process.returncode == 0


async def test_a_stale_socket_is_removed_and_its_number_is_not_killed(
    stale, bystander, monkeypatch
):
    monkeypatch.setattr(processes_module, "WAIT_S", 0.2)
    with pytest.raises(NoProcessError):
        await ask(QueryProxy(stale, 2), "ours", "/traces/usage.json")
    assert not list(stale.glob("*.sock"))
    assert is_running(bystander)


async def test_a_surplus_process_that_has_ended_is_not_killed(stale, bystander):
    processes = Processes(stale, 0)
    processes.note_slow(bystander.pid)
    assert not list(stale.glob("*.sock"))
    assert is_running(bystander)


def test_a_process_that_only_sends_on_displaces_none_of_the_slow_ones(stale, bystander):
    with listening(stale, bystander):
        processes = Processes(stale, 1)
        processes.note_slow(bystander.pid)
        processes._lent.add(NOBODY)
        processes.note_reading(NOBODY)
    assert is_running(bystander)


def test_slow_processes_that_have_ended_displace_no_other(stale, bystander, monkeypatch):
    discarded: list[int] = []
    monkeypatch.setattr(Processes, "_discard_idle", lambda _self, pid: discarded.append(pid))
    processes = Processes(stale, 1)
    processes.note_slow(NOBODY)
    processes.note_slow(bystander.pid)
    assert discarded == []
    assert is_running(bystander)


async def test_without_descriptors_no_healthy_process_is_killed(stale, bystander, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(client, "socket", SimpleNamespace(AF_UNIX=socket.AF_UNIX, socket=refuse))
    with pytest.raises(NoProcessError, match="Too many open files"):
        await ask(QueryProxy(stale, 2), "ours", "/traces/usage.json")
    assert list(stale.glob("*.sock"))
    assert is_running(bystander)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has a niceness for each thread; run it there"
)
def test_every_thread_of_a_slow_process_has_less_of_the_processor():
    code = "import threading; threading.Thread(target=input).start(); print(flush=True)"
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        processes_module.lower_priority(process.pid)
        threads = [thread.id for thread in psutil.Process(process.pid).threads()]
        niceness = [os.getpriority(os.PRIO_PROCESS, thread) for thread in threads]
        process.communicate(b"\n")
    assert niceness == [processes_module.SLOW_NICENESS] * 2
