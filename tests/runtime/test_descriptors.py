import asyncio
import errno
import logging
import resource
import subprocess
import sys
import time

import pytest

from runtime import descriptors
from runtime.descriptors import AcceptErrors
from tests import ROOT

RAISE = """
import os, resource, subprocess
from runtime import descriptors
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
most = min(hard, 4000) if hard != resource.RLIM_INFINITY else 4000
resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
descriptors.raise_limit()
subprocess.run(["sh", "-c", "ulimit -Sn"], check=True)
assert descriptors.read_limit() == most
before = descriptors.count_open()
ends = os.pipe()
assert descriptors.count_open() == before + 2
print(most)
"""


def test_a_process_and_those_it_starts_may_have_all_descriptors_there_are_and_it_counts_its_own():
    """In a process of its own: here, threads of other tests' servers open and close some."""
    ended = subprocess.run(  # noqa: S603 - the program under test
        [sys.executable, "-c", RAISE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    allowed, most = ended.stdout.split()
    assert allowed == most


@pytest.mark.parametrize(("soft", "left"), [(256, 10_240), (20_000, 20_000)])
def test_where_unlimited_is_refused_the_limit_is_never_lowered(monkeypatch, soft, left):
    limits = [soft]

    def set_limit(_kind, new):
        if new[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(new[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    descriptors.raise_limit()
    assert limits[-1] == left


@pytest.fixture
def made_room_at_s():
    return []


@pytest.fixture
async def report(made_room_at_s):
    """Reports errors to the loop as asyncio does; those that are not taken come into a list."""
    loop = asyncio.get_running_loop()
    others = []
    loop.set_exception_handler(lambda _loop, context: others.append(context))
    AcceptErrors(logging.getLogger("test"), made_room_at_s.append).watch(loop)

    def report_one(**context):
        loop.call_exception_handler(context)
        return others

    yield report_one
    loop.set_exception_handler(None)


async def test_a_lack_of_descriptors_is_one_log_line_without_a_traceback(report, caplog):
    error = OSError(errno.EMFILE, "Too many open files")
    for _ in range(2048):
        assert report(message="socket.accept()", exception=error, socket="s") == []
    (record,) = caplog.records
    assert "Too many open files" in record.message
    assert record.exc_info is None


async def test_each_lack_of_descriptors_makes_room(report, made_room_at_s):
    for _ in range(2):
        report(message="socket.accept()", exception=OSError(errno.EMFILE, ""), socket="s")
    assert len(made_room_at_s) == 2
    assert time.monotonic() - made_room_at_s[0] < 60


async def test_a_lack_of_descriptors_that_comes_again_later_is_logged_again(
    report, caplog, monkeypatch
):
    error = OSError(errno.EMFILE, "Too many open files")
    report(message="socket.accept()", exception=error, socket="s")
    monkeypatch.setattr(descriptors, "NEW_SHORTAGE_S", -1.0)
    report(message="socket.accept()", exception=error, socket="s")
    assert len(caplog.records) == 2


async def test_other_errors_of_a_loop_go_where_they_went(report, caplog):
    mistake = {"message": "m", "exception": ValueError("a mistake")}
    unasked = {"message": "m", "exception": OSError(errno.EMFILE, "of a task, not of accept")}
    report(**mistake)
    assert report(**unasked) == [mistake, unasked]
    assert caplog.records == []
