"""The delay of live streams in the proxy, and of entries in the usage log.

Every event carries the time at which upstream wrote it, so its delay is only that of the way from
there. Rounds with upstream alone, the proxy and other programs alternate."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle

from bench.client import CallsJob, StreamsJob
from bench.figures import Figure
from bench.load import (
    CALLS_PER_SLUG,
    Client,
    Proxy,
    UsageLog,
    percentile,
    taximeter,
    time_entry,
    upstream,
)
from bench.options import Options
from bench.turns import Programs

FIRST_EVENT_ROUNDS, FIRST_EVENT_STREAMS = 12, 40
LAG_ROUNDS = 5
VISIBLE_CALLS = 100
BUSY_CALLS, BUSY_RATE, BUSY_CONNECTIONS = 3_000, 200.0, 4
MAX_CALLS = 12_000  # more than all of these make together


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The measured service, and the programs it is compared with.

    ``paths`` name one slug after another, to stay below the rate limit; ``busy_paths`` are of other
    slugs."""

    direct: Proxy
    ours: Proxy
    log: UsageLog
    client: Client
    paths: Iterator[str]
    busy_paths: Sequence[str]
    programs: Programs
    options: Options

    def stream(self, proxy: Proxy, queries: Sequence[str], **job: float) -> StreamsJob:
        """Return a job that makes a stream through a proxy for each of ``queries``."""
        source = self.paths if proxy is self.ours else cycle(proxy.paths)
        paths = [f"{next(source)}?{query}" for query in queries]
        made = StreamsJob(port=proxy.port, paths=paths, headers=proxy.headers)
        return replace(made, **job)  # type: ignore[arg-type]

    def take_turns(
        self, rounds: int, measure: Callable[[Proxy], Sequence[float]]
    ) -> dict[str, list[float]]:
        """Return the measured values of upstream alone ("direct"), Taximeter ("ours") and each peer."""
        values: dict[str, list[float]] = defaultdict(list)

        def add(name: str, proxy: Proxy) -> None:
            values[name] += measure(proxy)

        for number in range(rounds):
            self.programs.take_turns(number, add)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLoad:
    """A load of parallel streams.

    All are open before the first event, their events are spread evenly over the gap between two, and
    the streams have from ``events`` to ``more`` events, each one more than the one before it, so that
    they do not all end at once."""

    streams: int
    events: int
    more: int
    gap_s: float
    stagger_s: float = 0.01

    @property
    def opening_s(self) -> float:
        return self.streams * self.stagger_s + 0.5

    def make_job(self, service: Service, proxy: Proxy) -> StreamsJob:
        gate_s = time.monotonic() + self.opening_s
        queries = [
            f"{_pace(self.events + number * self.more // self.streams, self.gap_s * 1000)}"
            f"&gate_s={gate_s + number * self.gap_s / self.streams:.6f}"
            for number in range(self.streams)
        ]
        return service.stream(proxy, queries, stagger_s=self.stagger_s)


LAG_LOAD = LiveLoad(streams=20, events=40, more=20, gap_s=0.01)
MANY_LOAD = LiveLoad(streams=500, events=40, more=25, gap_s=0.2)
FEW_LOAD = LiveLoad(streams=50, events=10, more=5, gap_s=0.2)


def measure_first_events(service: Service) -> Iterator[Figure]:
    """Time the first event of consecutive streams on an open connection."""

    def time_one(proxy: Proxy) -> Sequence[float]:
        job = service.stream(proxy, [_pace(5, 2)], repeats=FIRST_EVENT_STREAMS + 1)
        return service.client.run_streams(job).first_event_ms[1:]  # the first opens the connection

    rounds = service.options.choose_rounds(FIRST_EVENT_ROUNDS, 2)
    values_ms = service.take_turns(rounds, time_one)
    direct_ms = values_ms.pop("direct")
    for percent, target_ms in ((50, 0.5), (99, 1.0)):
        base_ms = percentile(direct_ms, percent)
        yield Figure(
            row=f"streams/first-event/p{percent}",
            title=f"first event of a stream: added, p{percent}",
            value=percentile(values_ms["ours"], percent) - base_ms,
            unit="ms",
            target=target_ms,
            note=f"direct {base_ms:.2f} ms",
        )
        title = f"first event of a stream: added, p{percent}"
        yield from _make_peer_figures(service, "first-event", title, values_ms, percent, base_ms)


def measure_lag(service: Service) -> Iterator[Figure]:
    def measure_one(proxy: Proxy) -> Sequence[float]:
        return service.client.run_streams(LAG_LOAD.make_job(service, proxy)).lags_ms

    values_ms = service.take_turns(service.options.choose_rounds(LAG_ROUNDS, 1), measure_one)
    title = f"lag of an event, {LAG_LOAD.streams} live streams: p99"
    yield Figure(
        row="streams/lag/p99",
        title=title,
        value=percentile(values_ms["ours"], 99),
        unit="ms",
        target=0.5,
        note=f"direct {percentile(values_ms.pop('direct'), 99):.2f} ms",
    )
    yield from _make_peer_figures(service, "lag", title, values_ms, 99)


def _make_peer_figures(
    service: Service,
    row: str,
    title: str,
    values_ms: Mapping[str, Sequence[float]],
    percent: int,
    base_ms: float = 0.0,
) -> Iterator[Figure]:
    for peer in service.options.peers:
        failure = service.programs.failures.get(peer.name)
        is_measured = failure is None and peer.name in values_ms
        yield Figure(
            row=f"streams/{row}/p{percent}/peer/{peer.name}",
            title=f"{title}: {peer.title}",
            value=percentile(values_ms[peer.name], percent) - base_ms if is_measured else None,
            unit="ms",
            note=failure or "",
        )


def measure_many(service: Service) -> Iterator[Figure]:
    load = FEW_LOAD if service.options.is_quick else MANY_LOAD
    before_mb = service.ours.rss_mb()
    direct = service.client.run_streams(load.make_job(service, service.direct))
    before_s = service.ours.cpu_s()["proxy"]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(service.client.run_streams, load.make_job(service, service.ours))
        time.sleep(load.opening_s + load.events * load.gap_s * 0.9)
        open_mb = service.ours.rss_mb()
        ours = running.result()
    event_us = (service.ours.cpu_s()["proxy"] - before_s) / len(ours.lags_ms) * 1e6
    notes = {
        "p99": f"direct {percentile(direct.lags_ms, 99):.2f} ms",
        "rss": f"{before_mb:.0f} MB before; CPU of the proxy an event {event_us:.0f} us",
    }
    for name, title, value, unit, target in (
        ("cut", "cut", float(ours.cut), "", 0.0),
        ("lost", "events lost", float(len(direct.lags_ms) - len(ours.lags_ms)), "", 0.0),
        ("p99", "lag of an event, p99", percentile(ours.lags_ms, 99), "ms", 20.0),
        ("rss", "RSS of the proxy", open_mb, "MB", 150.0),
    ):
        yield Figure(
            row=f"streams/many/{name}",
            title=f"{load.streams} live streams: {title}",
            value=value,
            unit=unit,
            target=target,
            note=notes.get(name, ""),
        )


def measure_visible(service: Service) -> Iterator[Figure]:
    yield _make_visible("idle", "service idle", _wait_for_entries(service, "idle"))


def measure_visible_while_busy(service: Service) -> Iterator[Figure]:
    job = CallsJob(
        port=service.ours.port,
        paths=service.busy_paths,
        run_length=CALLS_PER_SLUG,
        kind="small",
        first=0,
        calls=service.options.choose(BUSY_CALLS, BUSY_CALLS // 4),
        connections=BUSY_CONNECTIONS,
        rate=BUSY_RATE,
    )
    with Client() as other, ThreadPoolExecutor(1) as pool:
        running = pool.submit(other.run_calls, job)
        waits_ms = _wait_for_entries(service, "busy")
        running.result()
    yield _make_visible("busy", f"{BUSY_RATE:.0f} other calls a second", waits_ms)


def _wait_for_entries(service: Service, name: str) -> list[float]:
    """Return the milliseconds from the last byte of each call until it was readable in the view."""
    waits_ms = []
    for number in range(service.options.choose(VISIBLE_CALLS, VISIBLE_CALLS // 5)):
        job = service.stream(service.ours, [_pace(3, 5)])
        job = replace(job, sessions=[f"bench-{name}-{number}"])
        waits_ms.append(time_entry(service.client, service.log, job))
    return waits_ms


def _pace(events: int, gap_ms: float) -> str:
    return f"response=paced&events={events}&gap_ms={gap_ms:g}"


def _make_visible(name: str, when: str, waits_ms: Sequence[float]) -> Figure:
    return Figure(
        row=f"streams/visible/{name}",
        title=f"entry visible after the response, {when}: p99",
        value=percentile(waits_ms, 99),
        unit="ms",
        target=100.0,
        note=f"median {percentile(waits_ms, 50):.0f} ms",
    )


MEASUREMENTS: Mapping[str, Callable[[Service], Iterator[Figure]]] = {
    "first-event": measure_first_events,
    "lag": measure_lag,
    "many": measure_many,
    "visible": measure_visible,
    "visible-busy": measure_visible_while_busy,
}


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of all measurements of streams. Raises BenchError."""
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(upstream())
        ours, log = stack.enter_context(taximeter(folder, direct.port, MAX_CALLS))
        programs = Programs({"direct": direct, "ours": ours})
        programs.start_peers(stack, options.peers, folder, direct, "streamed", "?response=sse")
        busy = BUSY_CALLS // CALLS_PER_SLUG + 1
        service = Service(
            direct=direct,
            ours=ours,
            log=log,
            client=stack.enter_context(Client()),
            paths=cycle(ours.paths[busy:]),
            busy_paths=ours.paths[:busy],
            programs=programs,
            options=options,
        )
        for name, measure_one in MEASUREMENTS.items():
            if options.wants(name):
                yield from measure_one(service)
