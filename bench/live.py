"""The time from a stored call to the page that shows it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from statistics import median

from bench.figures import Figure
from bench.filling import fill
from bench.load import HOST, BenchError, percentile
from bench.visitor import Visitor
from store.traces.database import TraceDatabase

TARGET_MS = 1000.0


def measure_live(visitor: Visitor, port: int, rounds: int) -> Iterator[Figure]:
    """Yield how long an open list takes to show a call."""
    with TraceDatabase(visitor.path) as traces:
        count = traces.count_entries()
    times_ms = []
    with _follow(visitor, port) as stream:
        for more in range(1, rounds + 1):
            fill(visitor.path, count + more)
            stored_s = time.perf_counter()
            _wait_for_calls(stream)
            visitor.time_page("/traces/usage")
            times_ms.append((time.perf_counter() - stored_s) * 1000)
    p99_ms = percentile(times_ms, 99)
    yield Figure(
        row="live/shown",
        title="a stored call shown on an open list: p99",
        value=p99_ms,
        unit="ms",
        target=TARGET_MS,
        note=f"median {median(times_ms):.1f} ms",
    )


@contextmanager
def _follow(visitor: Visitor, port: int) -> Iterator[HTTPResponse]:
    """Open a stream and read what it says first."""
    connection = HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request(
            "GET", "/live/events?after=0&flights=1", headers=visitor.make_headers(port)
        )
        stream = connection.getresponse()
        if stream.status != 200:
            raise BenchError(f"a stream responded with {stream.status}")
        _wait_for_calls(stream)
        yield stream
    finally:
        connection.close()


def _wait_for_calls(stream: HTTPResponse) -> None:
    while line := stream.readline():
        if line.strip() == b"event: calls":
            return
    raise BenchError("a stream ended")
