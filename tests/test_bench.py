"""The processor time that benchmarks count as theirs and not as their neighbours'."""

import subprocess
import sys

import psutil

from bench.load import tree_cpu_s

BUSY_S = 0.3
GRANDCHILD = f"""
import sys, time
while time.process_time() < {BUSY_S}: pass
print(flush=True)
sys.stdin.read()
"""
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"
COUNTED_S = BUSY_S - 0.02  # the kernel counts in ticks of 0.01 s


def test_the_time_of_grandchildren_counts_while_they_run_and_when_they_have_ended():
    before_s = tree_cpu_s(psutil.Process())
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin
        assert child.stdout
        child.stdout.readline()
        assert tree_cpu_s(psutil.Process()) - before_s >= COUNTED_S
        child.stdin.close()
        child.wait(30)
    assert tree_cpu_s(psutil.Process()) - before_s >= COUNTED_S
