"""The suite itself: tests that are skipped say why and how to run them, and none has very many cases."""

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import settings

from tests import ROOT
from tests.sources import find_tests, parse
from tests.upstream import wait_until

# Their reason is made by ``chromium.why_missing``, which ``tests/browser`` tests.
COMPUTED = {"tests/browser/conftest.py", "tests/browser/test_chromium.py"}
MAX_CASES = 100
FEW = 40
"""Examples: fewer than each property has (conftest.py), for those that take long."""
SKIP = re.compile(r"pytest\.(mark\.)?(skipif|skip|importorskip)")
_HOW = re.compile(r"\b(?:run|runs|brings|installs|set|uses)\b")


def find_skips() -> Iterator[tuple[str, ast.Call]]:
    """Yield the file and the call of each skip in the suite."""
    for path in find_tests():
        text = path.read_text()
        for node in ast.walk(parse(path)) if SKIP.search(text) else ():
            if isinstance(node, ast.Call) and SKIP.fullmatch(ast.unparse(node.func)):
                yield str(path.relative_to(ROOT)), node


def read_reason(skip: ast.Call) -> str | None:
    """Return the reason that is written there, None for one that is computed or left out."""
    is_positional = ast.unparse(skip.func) == "pytest.skip"
    values = [word.value for word in skip.keywords if word.arg == "reason"]
    for value in [*values, *(skip.args[:1] if is_positional else [])]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def test_no_function_has_very_many_cases(request):
    """Each costs a set-up: loop over them and name the one that fails, or draw examples.

    These are the tests of this run, so only a run of the whole suite looks at all."""
    functions = Counter(item.nodeid.partition("[")[0] for item in request.session.items)
    assert {name: cases for name, cases in functions.items() if cases > MAX_CASES} == {}


def test_every_skip_says_why_and_how_to_run_the_test():
    reasons = [(path, read_reason(skip)) for path, skip in find_skips()]
    assert {path for path, reason in reasons if reason is None} == COMPUTED
    for path, reason in reasons:
        why, _, how = (reason or "it is computed; run it").partition("; ")
        assert why, path
        assert _HOW.search(how), f"{path}: {reason!r} does not say how to run the test"


def test_what_is_waited_for_has_half_of_the_time():
    looks: list[tuple[float, float]] = []

    def look() -> bool:
        began = time.monotonic()
        threading.Event().wait(0.05)
        looks.append((began, time.monotonic()))
        return len(looks) == 3

    wait_until(look, "the third look")
    for (began, ended), (next_began, _) in pairwise(looks):
        assert next_began - ended >= 0.9 * (ended - began)


def test_no_test_asks_for_as_many_examples_as_there_are_anyway():
    """A quick run would draw all of them, too."""
    asked = re.compile(r"settings\(.*max_examples=(\d+)")
    assert settings.get_profile("quick").max_examples < FEW
    assert {
        str(path.relative_to(ROOT)): numbers
        for path in find_tests()
        if (numbers := [n for n in asked.findall(path.read_text()) if int(n) >= FEW])
    } == {}


def test_no_test_replaces_the_clock_of_the_whole_process():
    """Threads that outlive the test have timers by it: replace the name in the module under test."""
    replaced = [
        str(path.relative_to(ROOT))
        for path in find_tests()
        if re.search(r"setattr\(\s*['\"]?time\b", path.read_text())
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("setattr")
        and ast.unparse(node.args[0]) in {"time", "'time.time'", "'time.sleep'", "'time.monotonic'"}
    ]
    assert replaced == []


@pytest.mark.slow
def test_processes_of_tests_can_be_interrupted_where_the_suite_runs_in_the_background():
    ask = (
        "import subprocess, conftest as _\n"
        "for name in ('INT', 'HUP'):\n"
        "    print(subprocess.run(['sh', '-c', f'kill -{name} $$']).returncode, flush=True)"
    )
    command = ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh", sys.executable, "-c", ask]
    environ = os.environ | {"PYTHONPATH": os.fspath(ROOT)}
    said = subprocess.run(  # noqa: S603 - our own program
        command, env=environ, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == [str(-signal.SIGINT), str(-signal.SIGHUP)]
