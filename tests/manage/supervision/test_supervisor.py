import asyncio
import json
import os
import socket
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest

from manage.supervision.children import Child
from manage.supervision.supervisor import Supervisor
from runtime.child_troubles import read_troubles
from runtime.errors import ChildError, StartError
from runtime.settings import Settings
from tests.upstream import PATIENCE_S


def settings(tmp_path, listen, log_format="text"):
    return Settings.from_env(
        {
            "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
            "TAXIMETER_LISTEN": listen,
            "TAXIMETER_LOG_FORMAT": log_format,
        }
    )


def test_an_address_that_is_taken_is_named_with_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"{address}.*--listen"):
            Supervisor(settings(tmp_path, address))


@pytest.fixture
def log_format():
    return "text"


@pytest.fixture
def printed(monkeypatch):
    """The lines that the service prints to standard error."""
    lines: list[str] = []
    writer = SimpleNamespace(write_line=lines.append, close=lambda: None)
    monkeypatch.setattr("manage.supervision.supervisor.LineWriter", lambda _stream: writer)
    return lines


@pytest.fixture
async def keep(tmp_path, printed, log_format):
    """Keeps a process of some lines of Python, as one of the service. A coroutine until it is ready."""
    (tmp_path / "data").mkdir()
    supervisor = Supervisor(settings(tmp_path, "127.0.0.1:0", log_format))
    tasks = []

    async def keep(code):
        child = Child("worker", [sys.executable, "-c", code], [])
        keeping = asyncio.create_task(
            supervisor._keep(child, os.environ | {"PYTHONPATH": os.curdir})
        )
        tasks.append((child, keeping))
        async with asyncio.timeout(PATIENCE_S):
            while not (child.was_ready or keeping.done()):
                await asyncio.sleep(0.01)
        if keeping.done():
            await keeping
        return child

    yield keep
    supervisor._stopping.set()
    for child, keeping in tasks:
        child.kill()
        with suppress(ChildError):
            await keeping
    supervisor.close()


async def test_a_first_start_that_fails_is_an_error_with_the_last_lines(keep):
    with pytest.raises(ChildError, match=r"could not start \(exit status 3\)[^$]*no such thing"):
        await keep("import sys; print('no such thing', file=sys.stderr); sys.exit(3)")


async def test_a_process_that_is_killed_before_it_is_ready_is_started_again(keep, tmp_path):
    child = await keep(
        "import os, pathlib, signal\n"
        "from runtime import readiness\n"
        f"been_here = pathlib.Path({str(tmp_path / 'been-here')!r})\n"
        "if not been_here.exists():\n"
        "    been_here.touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "readiness.announce()\n"
        "signal.pause()\n"
    )
    assert child.was_ready
    assert read_troubles(tmp_path / "data") == [], "it is over once the process is ready"


@pytest.mark.parametrize("log_format", ["json"])
async def test_in_json_every_line_of_a_process_and_about_it_is_an_object(keep, tmp_path, printed):
    await keep(
        "import pathlib, signal, sys\n"
        "from runtime import readiness\n"
        f"been_here = pathlib.Path({str(tmp_path / 'been-here')!r})\n"
        "readiness.announce()\n"
        "if not been_here.exists():\n"
        "    been_here.touch()\n"
        "    raise SystemExit('no such thing')\n"
        "print('back', file=sys.stderr, flush=True)\n"
        "signal.pause()\n"
    )
    async with asyncio.timeout(PATIENCE_S):
        while not any("back" in line for line in printed):
            await asyncio.sleep(0.01)
    lines = [json.loads(line) for line in printed]
    said = [(line["process"], line["level"], line["message"]) for line in lines]
    assert said == [
        ("worker", "error", "no such thing"),
        ("up", "warning", "taximeter: the worker process exited with status 1 and is restarted in 0.2 s"),
        ("worker", "error", "back"),
    ]  # fmt: skip
