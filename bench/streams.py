"""``python -m bench.streams``: the delay of live streams in the proxy, beside the upstream alone.

Every event carries the moment the upstream wrote it, so its lag is that of the way from there and of
nothing else. Direct and proxied rounds take turns.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

from bench.client import CallsJob, StreamsJob
from bench.load import (
    CALLS_PER_SLUG,
    BenchError,
    Client,
    Neighbours,
    Proxy,
    UsageLog,
    judge,
    percentile,
    taximeter,
    upstream,
)

FIRST_EVENT_ROUNDS, FIRST_EVENT_STREAMS = 12, 40
LAG_ROUNDS = 5
VISIBLE_CALLS, VISIBLE_PATIENCE_S, POLL_S = 100, 10.0, 0.002
BUSY_CALLS, BUSY_RATE, BUSY_CONNECTIONS = 3_000, 200.0, 4
MAX_CALLS = 12_000  # more than all of these make together


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The service that is measured. ``paths`` name one slug after another, to stay below the rate
    limit; ``busy_paths`` are of other slugs."""

    direct: Proxy
    ours: Proxy
    log: UsageLog
    client: Client
    paths: Iterator[str]
    busy_paths: Sequence[str]

    def stream_directly(self, queries: Sequence[str], **job: float) -> StreamsJob:
        paths = [f"{self.direct.paths[0]}?{query}" for query in queries]
        return replace(StreamsJob(port=self.direct.port, paths=paths), **job)  # type: ignore[arg-type]

    def stream(self, queries: Sequence[str], **job: float) -> StreamsJob:
        paths = [f"{next(self.paths)}?{query}" for query in queries]
        return replace(StreamsJob(port=self.ours.port, paths=paths), **job)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLoad:
    """Streams that live beside each other. All are open before the first event, their events are
    spread evenly over the gap, and each has one event more than ``events`` and than the stream
    before it, up to ``more``: what is measured is a crowd, not its coming and going at one stroke.
    """

    streams: int
    events: int
    more: int
    gap_s: float
    stagger_s: float = 0.01

    @property
    def opening_s(self) -> float:
        return self.streams * self.stagger_s + 0.5

    def make_job(self, make: Callable[..., StreamsJob]) -> StreamsJob:
        gate_s = time.monotonic() + self.opening_s
        queries = [
            f"{_pace(self.events + number * self.more // self.streams, self.gap_s * 1000)}"
            f"&gate_s={gate_s + number * self.gap_s / self.streams:.6f}"
            for number in range(self.streams)
        ]
        return make(queries, stagger_s=self.stagger_s)


LAG_LOAD = LiveLoad(streams=20, events=40, more=20, gap_s=0.01)
MANY_LOAD = LiveLoad(streams=500, events=40, more=25, gap_s=0.2)


def measure_first_events(service: Service) -> None:
    """Time the first event of streams that follow each other on an open connection."""
    direct_ms: list[float] = []
    ours_ms: list[float] = []
    for _ in range(FIRST_EVENT_ROUNDS):
        for make_job, into in ((service.stream_directly, direct_ms), (service.stream, ours_ms)):
            result = service.client.run_streams(
                make_job([_pace(5, 2)], repeats=FIRST_EVENT_STREAMS + 1)
            )
            into += result.first_event_ms[1:]  # the first had to open the connection
    _print_pair("first event of a stream", direct_ms, ours_ms)
    for percent, target_ms in ((50, 1.0), (99, 5.0)):
        added_ms = percentile(ours_ms, percent) - percentile(direct_ms, percent)
        _print_verdict(f"added at p{percent}, ms", added_ms, target_ms)


def measure_lag(service: Service) -> None:
    direct_ms: list[float] = []
    ours_ms: list[float] = []
    for _ in range(LAG_ROUNDS):
        for make_job, into in ((service.stream_directly, direct_ms), (service.stream, ours_ms)):
            into += service.client.run_streams(LAG_LOAD.make_job(make_job)).lags_ms
    _print_pair(f"lag of an event, {LAG_LOAD.streams} live streams", direct_ms, ours_ms)
    _print_verdict("p99, ms", percentile(ours_ms, 99), 2.5)


def measure_many(service: Service) -> None:
    before_mb = service.ours.rss_mb()
    direct = service.client.run_streams(MANY_LOAD.make_job(service.stream_directly))
    before_s = service.ours.cpu_s()["proxy"]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(service.client.run_streams, MANY_LOAD.make_job(service.stream))
        time.sleep(MANY_LOAD.opening_s + MANY_LOAD.events * MANY_LOAD.gap_s * 0.9)
        open_mb = service.ours.rss_mb()
        ours = running.result()
    cpu_s = service.ours.cpu_s()["proxy"] - before_s
    _print_pair(f"lag of an event, {MANY_LOAD.streams} live streams", direct.lags_ms, ours.lags_ms)
    print(
        f"  CPU of the proxy an event, opening and ending included: {cpu_s / len(ours.lags_ms) * 1e6:.0f} us"
    )
    _print_verdict("p99, ms", percentile(ours.lags_ms, 99), 20)
    _print_verdict("streams cut", ours.cut, 0)
    _print_verdict("events lost", len(direct.lags_ms) - len(ours.lags_ms), 0)
    _print_verdict(f"RSS of the proxy, MB ({before_mb:.0f} before)", open_mb, 150)


def measure_visible(service: Service) -> None:
    _print_visible("entry visible, service idle", _wait_for_entries(service, "idle"))


def measure_visible_while_busy(service: Service) -> None:
    job = CallsJob(
        port=service.ours.port,
        paths=service.busy_paths,
        run_length=CALLS_PER_SLUG,
        kind="small",
        first=0,
        calls=BUSY_CALLS,
        connections=BUSY_CONNECTIONS,
        rate=BUSY_RATE,
    )
    with Client() as other, ThreadPoolExecutor(1) as pool:
        running = pool.submit(other.run_calls, job)
        waits_ms = _wait_for_entries(service, "busy")
        running.result()
    _print_visible(f"entry visible, {BUSY_RATE:.0f} other calls a second", waits_ms)


def _wait_for_entries(service: Service, name: str) -> list[float]:
    """Return how long after its last byte each call was readable in the view."""
    waits_ms = []
    for number in range(VISIBLE_CALLS):
        session = f"bench-{name}-{number}"
        job = replace(service.stream([_pace(3, 5)]), sessions=[session])
        (ended_s,) = service.client.run_streams(job).ended_s
        while not service.log.has(session):
            if time.monotonic() - ended_s > VISIBLE_PATIENCE_S:
                raise BenchError(f"the call of {session} did not become a row")
            time.sleep(POLL_S)
        waits_ms.append((time.monotonic() - ended_s) * 1000)
    return waits_ms


def _pace(events: int, gap_ms: float) -> str:
    return f"response=paced&events={events}&gap_ms={gap_ms:g}"


def _print_visible(name: str, waits_ms: Sequence[float]) -> None:
    print(f"{name}: p50 {percentile(waits_ms, 50):.0f} ms")
    _print_verdict("p99, ms", percentile(waits_ms, 99), 1000)


def _print_pair(name: str, direct_ms: Sequence[float], ours_ms: Sequence[float]) -> None:
    for where, values in (("direct", direct_ms), ("Taximeter", ours_ms)):
        p50, p99 = percentile(values, 50), percentile(values, 99)
        print(f"{name}, {where}: p50 {p50:.2f} ms, p99 {p99:.2f} ms ({len(values)} values)")


def _print_verdict(name: str, value: float, target: float) -> None:
    print(f"  {name:40} {value:8.2f}{judge(value, target, '')}")


MEASUREMENTS: Mapping[str, Callable[[Service], None]] = {
    "first-event": measure_first_events,
    "lag": measure_lag,
    "many": measure_many,
    "visible": measure_visible,
    "visible-busy": measure_visible_while_busy,
}


def run(names: Sequence[str], parent: Path | None) -> None:
    """Run the measurements with these names. Raises BenchError."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="taximeter-bench-", dir=parent))
        )
        direct = stack.enter_context(upstream())
        ours, log = stack.enter_context(taximeter(folder, direct.port, MAX_CALLS))
        busy = BUSY_CALLS // CALLS_PER_SLUG + 1
        service = Service(
            direct=direct,
            ours=ours,
            log=log,
            client=stack.enter_context(Client()),
            paths=cycle(ours.paths[busy:]),
            busy_paths=ours.paths[:busy],
        )
        for name in names:
            neighbours = Neighbours()
            MEASUREMENTS[name](service)
            print(f"  others took {neighbours.share():.0%} of the machine meanwhile")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}")
    parser.add_argument(
        "--dir", type=Path, help="where the data goes meanwhile (default: the temporary directory)"
    )
    arguments = parser.parse_args()
    names: list[str] = arguments.names or list(MEASUREMENTS)
    if not set(names) <= set(MEASUREMENTS):
        parser.error(f"the measurements are {', '.join(MEASUREMENTS)}")
    try:
        run(names, arguments.dir)
    except BenchError as error:
        sys.exit(f"bench: {error}")


if __name__ == "__main__":
    main()
