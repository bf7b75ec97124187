"""The limit on the address space, tried in other processes: one cannot be taken back."""

import subprocess
import sys

import pytest

from tests import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS has no such limit; run it on Linux"
)
TAKE = """
from runtime import address_space
def take():
    try:
        return len(bytes(1 << 30)) >> 20  # which touches none of it
    except MemoryError:
        return "MemoryError"
"""


def run(code):
    command = [sys.executable, "-P", "-c", TAKE + code]
    found = subprocess.run(  # noqa: S603 - our own
        command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


def test_what_is_above_the_limit_is_an_error_after_which_the_process_goes_on():
    assert run("address_space.limit(500_000_000); print(take()); print('on')") == [
        "MemoryError",
        "on",
    ]


@pytest.mark.slow
def test_a_process_that_is_started_takes_the_limit_back():
    assert run("address_space.limit(500_000_000); address_space.lift(); print(take())") == ["1024"]


def test_a_limit_for_good_cannot_be_taken_back():
    code = "address_space.limit(500_000_000, for_good=True); address_space.lift(); print(take())"
    assert run(code) == ["MemoryError"]


def test_the_error_of_a_thread_without_room_for_its_stack_is_known():
    code = """
import threading
address_space.limit(500_000_000)
threading.stack_size(400 << 20)
try:
    for _ in range(2):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
except RuntimeError as error:
    print(address_space.is_used_up(error), address_space.is_used_up(RuntimeError("x")))
"""
    assert run(code) == ["True", "False"]
