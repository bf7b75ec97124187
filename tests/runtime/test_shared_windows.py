"""Shared windows: what one of them does, and what several processes do together.

The processes are those of a service: they inherit the descriptor, and each has the others' admissions.
"""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given, strategies as st

from runtime import shared_windows
from runtime.shared_windows import SharedWindows
from tests import ROOT

WINDOW_S = shared_windows.WINDOW_S


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@contextmanager
def windows_of(processes, clock, capacity=50):
    """Yield the same windows as so many processes see them."""
    fd = shared_windows.create(capacity)
    with ExitStack() as stack:
        stack.callback(os.close, fd)
        yield [SharedWindows(fd, clock) for _ in range(processes)]


@pytest.fixture
def windows(clock):
    with windows_of(1, clock) as (windows,):
        yield windows


def test_the_limit_is_reached_exactly_and_says_how_long_to_wait(windows, clock):
    admitted = []
    for clock.now_s in (0, 10, 20):
        admitted.append(windows.admit("a", 3))
    assert admitted == [0, 0, 0]
    for clock.now_s, wait_s in ((30, 30), (59.5, 0.5), (60, 0), (60, 10)):
        assert windows.admit("a", 3) == wait_s


def test_names_do_not_share_a_window(windows):
    assert windows.admit("a", 1) == 0
    assert windows.admit("b", 1) == 0
    assert windows.admit("a", 1) > 0


def test_refused_requests_do_not_count(windows, clock):
    windows.admit("a", 1)
    for _ in range(59):
        clock.now_s += 1
        assert windows.admit("a", 1) > 0
    clock.now_s += 1
    assert windows.admit("a", 1) == 0


@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 2)), max_size=200),
    st.integers(1, 20),
    st.booleans(),
)
def test_no_minute_ever_holds_more_than_the_limit(steps, limit, is_killed):
    """Neither over all processes, nor when one is killed after it has taken a turn."""
    clock, admitted = Clock(), []
    with windows_of(3, clock) as processes:
        for gap_s, process in steps:
            clock.now_s += gap_s
            if processes[process].admit("a", limit) == 0:
                admitted.append(clock.now_s)
            if is_killed:
                processes[process]._turns[0] += 1
    for start in admitted:
        assert sum(start <= t < start + WINDOW_S for t in admitted) <= limit
    if not is_killed and len(steps) <= limit:
        assert len(admitted) == len(steps)


def test_a_window_that_is_idle_is_given_to_another_name(clock):
    with windows_of(2, clock, capacity=1) as (one, two):
        assert one.admit("a", 2) == 0
        clock.now_s += WINDOW_S
        assert two.admit("b", 2) == 0
        assert two.admit("b", 2) == 0
        assert two.admit("b", 2) > 0
        clock.now_s += WINDOW_S
        assert one.admit("a", 2) == 0, "it looks for a window again"
        assert one.admit("a", 2) == 0
        assert one.admit("a", 2) > 0


def test_what_finds_no_window_is_not_limited_and_that_is_logged_once(clock, caplog):
    with windows_of(1, clock, capacity=2) as (windows,):
        for name in ("a", "b"):
            assert windows.admit(name, 1) == 0
        assert [windows.admit("c", 1) for _ in range(3)] == [0, 0, 0]
        assert windows.admit("a", 1) > 0
        clock.now_s += WINDOW_S
        assert windows.admit("c", 1) == 0
        assert windows.admit("c", 1) > 0
    assert [record.message for record in caplog.records] == [
        "2 rate limits are in use: others are not kept"
    ]


ADMITTING = """
import sys
from runtime.shared_windows import SharedWindows
windows = SharedWindows(int(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
print(sum(windows.admit(f"slug {n % 3}", 300) == 0 for n in range(3 * 400)), flush=True)
"""
HOLDING = """
import fcntl, sys
from runtime.shared_windows import SharedWindows
windows = SharedWindows(int(sys.argv[1]))
windows.admit("slug 0", 300)
fcntl.lockf(windows._fd, fcntl.LOCK_EX, 0, 0)
print(flush=True)
sys.stdin.readline()
"""


@contextmanager
def running(code, fd):
    """Run a process that inherits the descriptor, until it says that it is ready."""
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", code, str(fd)],
        cwd=ROOT, pass_fds=[fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_processes_at_the_same_time_admit_exactly_the_limit_and_one_killed_with_the_locks_stops_none():
    fd = shared_windows.create()
    with ExitStack() as stack:
        holder = stack.enter_context(running(HOLDING, fd))
        processes = [stack.enter_context(running(ADMITTING, fd)) for _ in range(2)]
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        holder.send_signal(signal.SIGKILL)
        admitted = [int(process.stdout.readline()) for process in processes]
    os.close(fd)
    assert sum(admitted) == 3 * 300 - 1
