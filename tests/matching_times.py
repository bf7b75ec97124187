"""Regular expressions whose time is not in proportion to the text, found by letting them run.

``python -m tests.matching_times`` matches the cases that it reads, and names each before it begins. Processor
time is what counts, so other work on the machine changes nothing; nothing stops a match but a signal
that ends the process, for which another one goes on with the next case.
"""

import json
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tests.hostile_texts import make_hostile_texts

# Characters, which take milliseconds in proportion, and half a second in any other way.
LENGTH = 10_000
LIMIT_S = 0.15  # of processor time, for one text
METHODS: dict[str, Callable[[re.Pattern[Any], Any], object]] = {
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    # Each place from which it can begin, as in search, and each at which one begins after another.
    "search": lambda pattern, text: deque(pattern.finditer(text), maxlen=0),
}


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, how it is used, and how long a text may be that it is used on."""

    name: str
    source: str
    is_bytes: bool
    flags: int
    methods: tuple[str, ...]
    length: int = LENGTH


def find_slow(cases: Iterable[Case]) -> list[str]:
    """Return the names of the cases that take too much time."""
    left, slow = list(cases), []
    while left:
        begun = _run(left)
        if begun is None:
            break
        slow.append(left[begun].name)
        left = left[begun + 1 :]
    return slow


def _run(cases: list[Case]) -> int | None:
    """Return the index of the first case that takes too long. Raises RuntimeError for any other end."""
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", __name__],
        input=json.dumps([asdict(case) for case in cases]),
        capture_output=True,
        text=True,
        timeout=600,
    )
    if run.returncode == -signal.SIGPROF:
        return run.stdout.count("\n") - 1
    if run.returncode:
        raise RuntimeError(run.stderr)
    return None


def _try_cases(cases: Iterable[dict[str, Any]]) -> None:
    for case in cases:
        print(case["name"], flush=True)
        source = case["source"].encode("latin-1") if case["is_bytes"] else case["source"]
        pattern = re.compile(source, case["flags"])
        for text in list(make_hostile_texts(pattern, case["length"])):
            for method in case["methods"]:
                signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
                METHODS[method](pattern, text)
                signal.setitimer(signal.ITIMER_PROF, 0)  # before others are compiled


if __name__ == "__main__":
    _try_cases(json.load(sys.stdin))
