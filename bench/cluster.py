"""A cluster on this machine: CPU of a call by part, delay of its row, and calls a second.

One node records and has the pages, and others forward, all on loopback with a Redis server. The same
calls are also sent to a single-machine service, in turns. The idle costs of each part are measured
separately, and subtracted."""

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import psutil

from bench import light_load
from bench.client import CallsJob, StreamsJob
from bench.figures import Figure, make_figure
from bench.light_load import OwnLoad, WrkLoad, light_upstream
from bench.load import (
    CALLS_PER_SLUG,
    BenchError,
    Client,
    Proxy,
    UsageLog,
    percentile,
    taximeter,
    time_entry,
    tree_cpu_s,
    upstream,
)
from bench.nodes import CLUSTER_PARTS, Cluster, find_server, running_cluster, wait_for
from bench.options import Options
from bench.storage import read_size
from bench.traffic import SESSIONS, Kind
from extensions.cluster.shipper import REMEMBERED_S

ROUNDS, QUICK_ROUNDS, CONNECTIONS = 3, 1, 16
IDLE_S, QUIET_S, SETTLING_LIMIT_S = 3.0, REMEMBERED_S + 1, 120.0
BUSY_SHARE = 0.1  # of a processor, for all parts together
ALONE_PARTS = ("proxy", "recorder")
LAG_S, LAG_TARGET_MS = 12.0, 1000.0
NODES, SECONDS, QUICK_SECONDS = 3, 4.0, 2.0
MAX_RATE = 4_000  # calls a second: no machine here makes more
PROCESS = psutil.Process()
MISSING = "there is no redis-server or valkey-server; Debian's package redis-server brings one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of calls to measure."""

    name: str
    title: str
    kind: Kind
    calls: int
    warm_up: int


CASES = (
    Case(name="2kb", title="2 KB call", kind="small", calls=800, warm_up=200),
    Case(name="300kb", title="300 KB call", kind="agent", calls=4 * SESSIONS, warm_up=2 * SESSIONS),
)
PARTS = (*(case.name for case in CASES), "lag", "rate")


type Used = Callable[[], Mapping[Any, float]]
"""The CPU seconds of each part since its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The figures of a log that was filled and then emptied.

    They are the bytes of an entry in memory and on the way to the server, and the entries a second
    that a recorder node takes."""

    memory: float
    received: float
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The calls per second until all are rows, and the CPU milliseconds per call of each part."""

    per_s: float
    parts_ms: Mapping[str, float]


class Meter:
    """Measures rounds of calls through one service.

    ``idle`` is the CPU seconds that each part uses in a second without calls."""

    def __init__(self, used: Used, log: UsageLog) -> None:
        self._used, self._log = used, log
        self.idle: Mapping[str, float] = {}

    def measure_idle(self) -> None:
        self.settle()
        before, began_s = self._used(), time.monotonic()
        time.sleep(IDLE_S)
        seconds = time.monotonic() - began_s
        self.idle = {part: (used - before[part]) / seconds for part, used in self._used().items()}

    def measure(self, client: Client, job: CallsJob) -> Round:
        """Make calls, and wait until all work for them is done. Raises BenchError."""
        before, began_s = self._used(), time.monotonic()
        client.run_calls(job)
        self._log.wait_for(job.first + job.calls)
        per_s = job.calls / (time.monotonic() - began_s)
        self.settle()
        after, seconds = self._used(), time.monotonic() - began_s
        parts_ms = {
            part: (used - before[part] - self.idle[part] * seconds) * 1000 / job.calls
            for part, used in after.items()
        }
        return Round(per_s=per_s, parts_ms=parts_ms)

    def settle(self) -> None:
        """Wait until all parts have been idle longer than shipped calls are remembered. Raises BenchError."""
        deadline_s = quiet_s = time.monotonic()
        deadline_s += SETTLING_LIMIT_S
        used = sum(self._used().values())
        while time.monotonic() < quiet_s + QUIET_S:
            if time.monotonic() > deadline_s:
                raise BenchError("the service does not come to rest")
            time.sleep(1)
            if (now := sum(self._used().values())) > used + BUSY_SHARE:
                quiet_s = time.monotonic()
            used = now


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of a case, on a single machine and in a cluster. ``stored`` is in bytes per call."""

    alone: Sequence[Round]
    cluster: Sequence[Round]
    backlog: Backlog
    stored: float
    idle: Mapping[str, float]
    idle_commands: float


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of all parts, or the reason why they cannot be measured. Raises BenchError."""
    if find_server() is None:
        yield Figure(row="cluster", title="a cluster", value=None, note=MISSING)
        return
    for case in CASES:
        if options.wants(case.name):
            yield from make_figures(case, measure_case(case, options))
    if options.wants("lag"):
        yield from measure_lag(options)
    if options.wants("rate"):
        yield from measure_rate(options)


def measure_case(case: Case, options: Options) -> Measured:
    """Measure the costs of a kind of calls. Raises BenchError."""
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    total = case.warm_up + (rounds + 1) * case.calls
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(upstream())
        client = stack.enter_context(Client())
        alone, alone_log = stack.enter_context(taximeter(folder, direct.port, total))
        cluster = stack.enter_context(running_cluster(folder / "cluster", direct.port, total))
        services = (
            (alone, Meter(alone.cpu_s, alone_log)),
            (cluster.nodes[0].proxy, Meter(cluster.cpu_s, cluster.log)),
        )
        for proxy, meter in services:
            client.run_calls(make_job(case, proxy, 0, case.warm_up))
            meter.measure_idle()
        commands = measure_idle_commands(cluster)
        size = read_size(cluster.log.path)
        backlog = measure_backlog(case, cluster, client)
        # What one machine is not given as a backlog, it is given now.
        client.run_calls(make_job(case, alone, case.warm_up, case.calls))
        found: tuple[list[Round], list[Round]] = ([], [])
        for _, meter in services:
            meter.settle()
        for number in range(rounds):
            first = case.warm_up + (number + 1) * case.calls
            for each in (0, 1) if number % 2 else (1, 0):
                proxy, meter = services[each]
                job = make_job(case, proxy, first, case.calls)
                found[each].append(meter.measure(client, job))
        for log in (alone_log, cluster.log):
            log.check(total)
        added = read_size(cluster.log.path).used_bytes - size.used_bytes
    return Measured(
        alone=found[0],
        cluster=found[1],
        backlog=backlog,
        stored=added / (total - case.warm_up),
        idle=services[1][1].idle,
        idle_commands=commands,
    )


def make_job(case: Case, proxy: Proxy, first: int, calls: int) -> CallsJob:
    return proxy.make_job(case.kind, first, calls, CONNECTIONS)


def measure_idle_commands(cluster: Cluster) -> float:
    """Return the number of commands that the server gets in a second without calls."""
    before, began_s = cluster.count_commands(), time.monotonic()
    time.sleep(IDLE_S)
    return (cluster.count_commands() - before) / (time.monotonic() - began_s)


def measure_backlog(case: Case, cluster: Cluster, client: Client) -> Backlog:
    """Let calls wait on the server, then let the recorder node receive them; return the figures."""
    with cluster.recorder_held():
        before, held = cluster.client.info(), cluster.count_entries()
        client.run_calls(make_job(case, cluster.nodes[0].proxy, case.warm_up, case.calls))
        wait_for(lambda: cluster.count_entries() >= held + case.calls, "entries on the server")
        after = cluster.client.info()
        began_s = time.monotonic()
    wanted = case.warm_up + case.calls
    wait_for(lambda: cluster.log.count() >= wanted, "rows of the entries")
    seconds = time.monotonic() - began_s
    cluster.wait_forgotten()
    memory, received = (
        (after[name] - before[name]) / case.calls
        for name in ("used_memory", "total_net_input_bytes")
    )
    return Backlog(memory=memory, received=received, per_s=case.calls / seconds)


def make_figures(case: Case, found: Measured) -> Iterator[Figure]:
    """Yield the figures of a case."""
    row, title = f"cluster/{case.name}", f"a {case.title}"
    for name, where, rounds, parts in (
        ("/alone", "one machine", found.alone, ALONE_PARTS),
        ("", "cluster", found.cluster, CLUSTER_PARTS),
    ):
        for part in parts:
            values = [each.parts_ms[part] for each in rounds]
            yield make_figure(
                f"{row}{name}/{part}", f"CPU of {title}, {where}: {part}", values, "ms"
            )
        yield make_figure(
            f"{row}{name}/rate",
            f"{case.title}s a second until all are rows, {where} with 1 worker",
            [each.per_s for each in rounds],
        )
    backlog = found.backlog
    for name, text, value, unit in (
        ("drain", f"entries of {title} a second, from a backlog", backlog.per_s, ""),
        ("memory", f"memory of Redis for an entry of {title}", backlog.memory / 1000, "KB"),
        ("received", f"received by Redis for {title}", backlog.received / 1000, "KB"),
        ("stored", f"stored by a copy for {title}", found.stored / 1000, "KB"),
    ):
        yield Figure(row=f"{row}/{name}", title=text, value=value, unit=unit)
    yield Figure(
        row=f"{row}/idle",
        title=f"commands a second of a cluster with nothing to do, after {case.title}s",
        value=found.idle_commands,
        note="CPU: " + ", ".join(f"{name} {used:.1%}" for name, used in found.idle.items()),
    )


def measure_lag(options: Options) -> Iterator[Figure]:
    """Yield the delay from a call's response to its row, at half of the rate that the cluster records."""
    case, seconds = CASES[0], options.choose(LAG_S, LAG_S / 4)
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(upstream())
        client = stack.enter_context(Client())
        total = case.calls + round(MAX_RATE / 2 * seconds)
        cluster = stack.enter_context(running_cluster(folder, direct.port, total, spare=2))
        node, log = cluster.nodes[0].proxy, cluster.log
        began_s = time.monotonic()
        client.run_calls(make_job(case, node, 0, case.calls))
        log.wait_for(case.calls)
        rate = min(MAX_RATE, case.calls / (time.monotonic() - began_s)) / 2
        load = make_job(case, node, case.calls, round(rate * seconds))
        load = replace(load, paths=node.paths[:-2], rate=rate)
        waits_ms: list[float] = []
        with Client() as other, ThreadPoolExecutor(1) as pool:
            running = pool.submit(other.run_calls, load)
            while not running.done():
                number = len(waits_ms)
                path = f"{node.paths[-1 - number % 2]}?response=paced&events=3&gap_ms=5"
                job = StreamsJob(port=node.port, paths=[path], sessions=[f"lag-{number}"])
                waits_ms.append(time_entry(client, log, job))
            running.result()
        log.wait_for(load.first + load.calls + len(waits_ms))
    for percent in (50, 99):
        yield Figure(
            row=f"cluster/lag/p{percent}",
            title=f"a call is a row after its response, at half load: p{percent}",
            value=percentile(waits_ms, percent),
            unit="ms",
            target=LAG_TARGET_MS if percent == 99 else None,
            note=f"{rate:.0f} other calls a second, {len(waits_ms)} calls measured",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The result of a round through some proxy nodes: calls per second, and CPU milliseconds per call.

    ``others_ms`` is the CPU time of the load generator, the upstream and this process."""

    per_s: float
    nodes_ms: float
    others_ms: float


class RateBench:
    """A cluster whose recorder node is stopped while calls go through some of its proxy nodes."""

    def __init__(self, cluster: Cluster, loads: Sequence[OwnLoad | WrkLoad]) -> None:
        self._cluster, self._loads = cluster, loads
        self._paths = cycle(cluster.home.proxy.paths)
        self._sent = self._whole = 0

    def run(self, count: int, calls: int, seconds: float) -> Rate:
        """Make calls through ``count`` nodes until all are on the server, then let them be recorded."""
        nodes = [node.proxy for node in self._cluster.nodes[:count]]
        slugs = math.ceil(max(calls, MAX_RATE * seconds) / CALLS_PER_SLUG)  # of each node
        nodes = [replace(node, paths=list(islice(self._paths, slugs))) for node in nodes]
        with self._cluster.recorder_held():
            before, others_s, began_s = self._used_s(), tree_cpu_s(PROCESS), time.monotonic()
            with ThreadPoolExecutor(count) as pool:
                running = [
                    pool.submit(load.run, node, 0, calls // count, seconds)
                    for load, node in zip(self._loads, nodes, strict=False)
                ]
                done = [each.result() for each in running]
            self._cluster.wait_shipped()
            took_s = time.monotonic() - began_s
            nodes_s, others_s = self._used_s() - before, tree_cpu_s(PROCESS) - others_s
        whole, sent = (sum(getattr(each, name) for each in done) for name in ("calls", "sent"))
        self._whole += whole
        self._sent += sent
        self._cluster.log.wait_for(self._whole)
        self._cluster.wait_forgotten()
        self._cluster.log.settle(self._whole, self._sent)
        return Rate(
            per_s=whole / took_s,
            nodes_ms=nodes_s * 1000 / sent,
            others_ms=(others_s - nodes_s) * 1000 / sent,
        )

    def _used_s(self) -> float:
        used = self._cluster.cpu_s()
        return sum(used[part] for part in ("proxy", "shipper", "redis"))


def measure_rate(options: Options) -> Iterator[Figure]:
    """Yield the calls a second through several proxy nodes, compared with one node.

    Nothing is recorded during the calls; everything is recorded afterwards."""
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    seconds = options.choose(SECONDS, QUICK_SECONDS)
    calls = round(MAX_RATE / 4 * seconds)  # of a round of our own client
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(light_upstream(folder))
        # Of some rounds: a slug may be used again in a minute.
        total = round(4 * MAX_RATE * seconds * NODES)
        cluster = stack.enter_context(running_cluster(folder, direct.port, total, NODES))
        bench = RateBench(cluster, [make_load(stack, folder / f"{n}") for n in range(NODES)])
        bench.run(NODES, calls, 1.0)
        found: dict[int, list[Rate]] = {1: [], NODES: []}
        for number in range(rounds):
            for count in (1, NODES) if number % 2 else (NODES, 1):
                found[count].append(bench.run(count, calls, seconds))
    for count, each in found.items():
        yield make_rate_figure(count, each)


def make_load(stack: ExitStack, folder: Path) -> OwnLoad | WrkLoad:
    """Return a load for one node, with its files in ``folder``."""
    if not light_load.is_there():
        return OwnLoad(stack.enter_context(Client()), CONNECTIONS)
    folder.mkdir()
    return WrkLoad(folder, CONNECTIONS)


def make_rate_figure(count: int, rounds: Sequence[Rate]) -> Figure:
    by = "wrk and nginx" if light_load.is_there() else "our own client and upstream"
    nodes_ms = statistics.median(each.nodes_ms for each in rounds)
    others_ms = statistics.median(each.others_ms for each in rounds)
    return make_figure(
        f"cluster/rate/{count}",
        f"2 KB calls a second through {count} proxy node{'s' if count > 1 else ''},"
        f" {os.cpu_count()} processors",
        [each.per_s for each in rounds],
        note=f"CPU a call: {nodes_ms:.2f} ms of nodes and Redis, {others_ms:.2f} ms of {by}",
    )
