import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable

import pytest

from manage.supervisor import MAX_DEATHS, Child, KeepsDyingError, StartError, Supervisor
from store.settings import Settings


def python(code: str) -> Child:
    return Child("worker", [sys.executable, "-c", code], [])


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_child_runs_to_its_end_and_its_last_lines_are_kept(capfd):
    child = python("import sys; print('first', file=sys.stderr); sys.exit('second')")
    assert await child.run_once(os.environ) == 1
    assert list(child.last_lines) == ["first", "second"]
    assert "second" in capfd.readouterr().err


async def test_a_child_that_is_killed_says_by_which_signal():
    child = python("import signal; signal.pause()")
    running = asyncio.create_task(child.run_once(os.environ))
    await wait_until(lambda: child.is_running)
    child.kill()
    assert await running == -signal.SIGKILL


async def test_a_line_too_long_to_show_stops_nobody():
    child = python("import sys; sys.stderr.write('x' * 1_000_000 + '\\nend\\n')")
    assert await child.run_once(os.environ) == 0
    assert child.last_lines[-1] == "end"


async def test_a_child_that_will_not_stop_is_killed_after_its_grace(capfd):
    code = "import signal, sys; signal.signal(15, signal.SIG_IGN); sys.stderr.write('up\\n'); sys.stderr.flush(); signal.pause()"
    child = python(code)
    running = asyncio.create_task(child.run_once(os.environ))
    await wait_until(lambda: child.last_lines)
    await child.stop(0.1)
    assert await running == -signal.SIGKILL
    assert "is killed" in capfd.readouterr().err


def test_a_child_that_dies_too_often_ends_the_service_with_its_last_lines(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr("manage.supervisor.time.monotonic", lambda: now_s[0])
    child = python("")
    child.last_lines.append("out of luck")
    for _ in range(MAX_DEATHS - 1):
        child.note_death(1)
    with pytest.raises(KeepsDyingError, match="out of luck"):
        child.note_death(1)


def test_deaths_that_are_far_apart_are_forgiven(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr("manage.supervisor.time.monotonic", lambda: now_s[0])
    child = python("")
    for _ in range(10):
        child.note_death(-9)
        now_s[0] += 5.1


def settings(tmp_path, listen):
    return Settings.from_env(
        {"TAXIMETER_DATA_DIR": str(tmp_path / "data"), "TAXIMETER_LISTEN": listen}
    )


def test_an_address_that_is_taken_is_named_with_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"{address}.*--listen"):
            Supervisor(settings(tmp_path, address))
