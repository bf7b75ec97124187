import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from manage.supervision import liveness
from manage.supervision.children import Child
from manage.supervision.liveness import ask_livez, end_when_silent, read_waits_s
from runtime.stacks import STACKS_SIGNAL
from tests.upstream import PATIENCE_S, wait_until

SERVER = """
import re, socket
from runtime import readiness, stacks
stacks.write_at_signal()
listener = socket.socket(fileno={fd})
readiness.announce()
while True:
    connected, _ = listener.accept()
    {body}
"""
RESPONDING = "connected.sendall(b'HTTP/1.1 200 OK'); connected.close()"
# Nothing but a signal of the kernel ends it: it holds its interpreter for hours.
STUCK = "re.match('(a*)*b', 'a' * 100)"


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
async def watch(listener, monkeypatch):
    """Start a server and watch it, until its end. ``lines`` are what is said of it and by it."""
    monkeypatch.setattr(liveness, "TURN_S", 0.02)
    monkeypatch.setattr(liveness, "STACKS_S", 0.01)
    tasks = []
    children = []

    async def watch(body, lines, ask=None):
        code = SERVER.format(fd=listener.fileno(), body=body)
        child = Child("web", [sys.executable, "-c", code], [listener.fileno()])
        child.print_line = lines.append
        children.append(child)
        ask = ask or partial(ask_livez, listener.getsockname()[1])
        running = asyncio.create_task(child.run_once(os.environ | {"PYTHONPATH": os.curdir}))
        tasks.extend([running, asyncio.create_task(end_when_silent(child, ask, lines.append))])
        await child.ready.wait()
        return child, running

    yield watch
    for child in children:
        child.kill()
    for task in tasks[1::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_process_that_is_stopped_is_killed(watch):
    lines: list[str] = []
    child, running = await watch(RESPONDING, lines)
    child.send_signal(signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE_S):
        assert await running == -signal.SIGKILL
    assert lines[0].startswith("the web process has not responded for")


async def test_a_process_that_holds_its_interpreter_writes_its_stacks(watch, monkeypatch):
    monkeypatch.setattr(liveness, "STACKS_S", 60.0)
    monkeypatch.setattr(liveness, "MOST_TURNS", 20)  # until it has come that far
    lines: list[str] = []
    child, running = await watch(STUCK, lines)
    async with asyncio.timeout(PATIENCE_S):
        while not any("re/__init__.py" in line for line in lines):
            await asyncio.sleep(0.01)
    assert not running.done()
    child.kill()
    assert await running == -signal.SIGKILL


async def test_a_process_that_responds_lives_on_also_after_all_stood_still(watch):
    lines: list[str] = []
    asked = []

    async def ask():
        asked.append(1)
        if len(asked) == 2:
            time.sleep(3 * liveness.TURN_S * liveness.MOST_TURNS)
            await asyncio.sleep(2 * liveness.TURN_S)

    child, running = await watch(RESPONDING, lines, ask)
    async with asyncio.timeout(PATIENCE_S):
        while len(asked) < 5:
            await asyncio.sleep(0.01)
    assert child.is_running
    assert (running.done(), lines) == (False, [])


async def test_a_process_that_gets_no_processor_is_not_killed_until_it_has_one(watch, monkeypatch):
    lines: list[str] = []
    child, running = await watch(RESPONDING, lines)
    readings: list[float] = []
    is_busy = True

    def read_waits_s(pid: int | None) -> dict[str, float]:
        assert pid == child.pid
        before_s = readings[-1] if readings else 0.0
        readings.append(before_s + liveness.TURN_S if is_busy else before_s)
        return {"1": 0.0, "2": readings[-1]}

    monkeypatch.setattr(liveness, "read_waits_s", read_waits_s)
    child.send_signal(signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE_S):
        while len(readings) < 5 * liveness.MOST_TURNS:
            await asyncio.sleep(0.01)
        assert (running.done(), lines) == (False, [])
        is_busy = False
        assert await running == -signal.SIGKILL
    assert lines[0].startswith("the web process has not responded for")


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(),
    reason="this kernel does not tell how long a thread waits; a Linux with CONFIG_SCHED_INFO runs it",
)
def test_the_time_in_which_a_thread_waits_for_a_processor_is_known():
    pin = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    command = [sys.executable, "-c", f"{pin}\nwhile True: pass"]
    rivals = [subprocess.Popen(command) for _ in range(2)]  # noqa: S603 - this Python
    try:
        wait_until(
            lambda: all(sum(read_waits_s(each.pid).values()) > 0.02 for each in rivals),
            "the waits of both",
        )
    finally:
        for each in rivals:
            each.kill()
            each.wait()
    assert read_waits_s(rivals[0].pid) == {}
    assert read_waits_s(None) == {}


async def test_an_error_and_a_process_that_is_not_ready_are_no_silence(watch):
    lines: list[str] = []
    asked = []

    async def ask():
        asked.append(1)
        raise ConnectionResetError

    child, running = await watch(RESPONDING, lines, ask)
    async with asyncio.timeout(PATIENCE_S):
        while len(asked) < 3:
            await asyncio.sleep(0.01)
    child.is_ready = False
    begun = len(asked)
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(running), 5 * liveness.TURN_S)
    assert len(asked) <= begun + 1
    assert (child.is_running, lines) == (True, [])


async def test_the_next_process_is_not_killed_for_the_last_one(monkeypatch):
    monkeypatch.setattr(liveness, "TURN_S", 0.001)
    monkeypatch.setattr(liveness, "STACKS_S", 0.0)
    child, sent = Child("web", [], []), list[signal.Signals]()
    child.is_ready, child.lives = True, 1

    def send_signal(_child, number):
        sent.append(number)
        child.is_ready, child.lives = False, 2  # it ended by itself, and is started again

    monkeypatch.setattr(Child, "send_signal", send_signal)
    watching = asyncio.create_task(end_when_silent(child, asyncio.Event().wait, lambda _: None))
    async with asyncio.timeout(PATIENCE_S):
        while not sent:
            await asyncio.sleep(0.001)
    for _ in range(10):
        await asyncio.sleep(0.001)
    watching.cancel()
    assert sent == [STACKS_SIGNAL]
