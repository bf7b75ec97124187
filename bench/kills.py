"""``kill -9`` of each process of the service under load: entries lost and doubled, bodies that differ.

The upstream is the witness: it keeps the number that each call has in its address. A call that it saw, or
whose whole response a client has, is to be one entry; its request is to be stored exactly, and its response
too, as far as it had come. What a client sees of a killed proxy is a closed connection.
"""

import json
import os
import random
import re
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path

import psutil

from bench.background import background
from bench.client import HEADERS
from bench.figures import Figure
from bench.load import (
    CALLS_PER_SLUG,
    HOST,
    BenchError,
    Part,
    Proxy,
    find_parts,
    make_endpoints,
    service,
    upstream,
)
from bench.options import Options
from bench.traffic import make_body
from bench.upstream import make_json_response

VICTIMS: tuple[tuple[Part, ...], ...] = (
    ("proxy",),
    ("recorder",),
    ("proxy", "recorder"),
    ("web",),
    ("queries",),
)
ROUNDS, QUICK_ROUNDS = 6, 1
CALLERS, ENDPOINTS = 8, 120
CALLS_BETWEEN = (60, 200)  # from this many to that many, before each kill
PATIENCE_S = 60.0
NUMBER = re.compile(rb'"content":"(\d{8}) ')


@dataclass(slots=True)
class Traffic:
    """The calls that were made: their numbers, and those whose whole response a client has."""

    numbers: Iterator[int] = field(default_factory=count)
    whole: set[int] = field(default_factory=set)
    wrong: set[int] = field(default_factory=set)
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Numbers of calls by what is wrong with their entries."""

    lost: set[int]
    doubled: set[int]
    wrong: set[int]


def measure(options: Options) -> Iterator[Figure]:
    """Yield what was lost, doubled and wrong. Raises BenchError where the service does not come back."""
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    dice = random.Random(1)  # noqa: S311 - no secret
    traffic, kills = Traffic(), 0
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        witness = stack.enter_context(upstream())
        trace_file, paths = make_endpoints(folder / "data", ENDPOINTS)
        with (
            service(folder, witness.port, paths) as ours,
            background(*[partial(_call, ours, traffic)] * CALLERS),
        ):
            for victims in VICTIMS * rounds:
                _wait_for_calls(traffic, dice.randint(*CALLS_BETWEEN))
                _kill(ours, victims)
                kills += len(victims)
            _wait_for_calls(traffic, CALLS_BETWEEN[1])
            os.kill(ours.pids["supervisor"], signal.SIGKILL)
            kills += 1
        seen = _read_seen(witness)
        with service(folder, witness.port, paths):
            found = _wait_for_entries(trace_file, traffic, seen)
    yield from make_figures(found, kills, traffic, len(seen))


def make_figures(found: Findings, kills: int, traffic: Traffic, seen: int) -> Iterator[Figure]:
    """Yield the figures of what was found."""
    note = f"{seen:,} calls at upstream, {len(traffic.whole):,} whole at clients, {traffic.cut} cut"
    for name, title, numbers in (
        ("lost", "entries lost", found.lost),
        ("doubled", "entries twice", found.doubled),
        ("wrong", "bodies that differ", found.wrong | traffic.wrong),
    ):
        yield Figure(
            row=f"kills/{name}",
            title=f"{kills} times kill -9 under load: {title}",
            value=float(len(numbers)),
            target=0.0,
            note=note,
        )


def judge_entries(
    rows: Sequence[tuple[bytes, bytes | None, str]],
    wanted: set[int],
    whole: set[int],
    response: bytes,
) -> Findings:
    """Compare entries (request, response, outcome) with the calls that were made."""
    numbers = [_find_number(request) for request, _, _ in rows]
    times = Counter(number for number in numbers if number is not None)
    wrong = {-1} if None in numbers else set()
    for number, (request, stored, outcome) in zip(numbers, rows, strict=True):
        if number is None:
            continue
        is_exact = request == make_body("small", number) and response.startswith(stored or b"")
        if number in whole:
            is_exact = is_exact and stored == response and outcome == "complete"
        if not is_exact:
            wrong.add(number)
    return Findings(
        lost=(wanted | whole) - set(times),
        doubled={number for number, entries in times.items() if entries > 1},
        wrong=wrong,
    )


def _find_number(request: bytes) -> int | None:
    found = NUMBER.search(request)
    return int(found[1]) if found else None


def _call(ours: Proxy, traffic: Traffic, is_over: threading.Event) -> None:
    """Make calls on a connection, and on a new one where it was closed."""
    headers = dict(line.split(": ", 1) for line in HEADERS.strip().splitlines())
    wanted = make_json_response().partition(b"\r\n\r\n")[2]
    while not is_over.is_set():
        with closing(HTTPConnection(HOST, ours.port, timeout=30)) as connection:
            try:
                while not is_over.is_set():
                    number = next(traffic.numbers)
                    path = ours.paths[number // CALLS_PER_SLUG % len(ours.paths)]
                    body = make_body("small", number)
                    connection.request("POST", f"{path}?number={number}", body, headers)
                    response = connection.getresponse()
                    received = response.read()
                    if response.status == 200:
                        traffic.whole.add(number)
                        if received != wanted:
                            traffic.wrong.add(number)
                    is_over.wait(0.02)
            except (OSError, HTTPException):
                traffic.cut += 1
                is_over.wait(0.1)


def _wait_for_calls(traffic: Traffic, calls: int) -> None:
    """Wait until so many more calls are whole. Raises BenchError where they do not come."""
    wanted, deadline_s = len(traffic.whole) + calls, time.monotonic() + PATIENCE_S
    while len(traffic.whole) < wanted:
        if time.monotonic() > deadline_s:
            raise BenchError(f"the service does not respond: {traffic.cut} calls were cut")
        time.sleep(0.01)


def _kill(ours: Proxy, victims: Sequence[Part]) -> None:
    """Kill parts of a service, and wait until others have taken their places."""
    parts = _wait_for_parts(ours, {})
    for part in victims:
        os.kill(parts[part], signal.SIGKILL)
    _wait_for_parts(ours, {part: parts[part] for part in victims})


def _wait_for_parts(ours: Proxy, killed: Mapping[Part, int]) -> Mapping[Part, int]:
    """Return the processes of a service when all are there, and none of those that were killed."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            parts, _ = find_parts(ours.pids["supervisor"])
        except (BenchError, psutil.NoSuchProcess):  # one that is just starting
            parts = {}
        if parts.keys() == ours.pids.keys() and not set(parts.items()) & set(killed.items()):
            return parts
        time.sleep(0.05)
    raise BenchError(f"the service did not start again what was killed: {', '.join(killed)}")


def _read_seen(witness: Proxy) -> set[int]:
    """Return the numbers of the calls that upstream saw."""
    with closing(HTTPConnection(HOST, witness.port, timeout=30)) as connection:
        connection.request("GET", "/seen")
        return set(json.loads(connection.getresponse().read()))


def _wait_for_entries(trace_file: Path, traffic: Traffic, seen: set[int]) -> Findings:
    """Return what is wrong when every call is an entry, or when none came for long."""
    response = make_json_response().partition(b"\r\n\r\n")[2]
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        found = judge_entries(_read_rows(trace_file), seen, traffic.whole, response)
        if not found.lost or time.monotonic() > deadline_s:
            return found
        time.sleep(0.5)


def _read_rows(trace_file: Path) -> list[tuple[bytes, bytes | None, str]]:
    uri = f"{trace_file.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
        rows = connection.execute("select request_body, response_body, outcome from usage_log")
        return [
            (_encode(request) or b"", _encode(response), end) for request, response, end in rows
        ]


def _encode(body: str | bytes | None) -> bytes | None:
    return body.encode() if isinstance(body, str) else body
