"""Calls a second with several workers of the proxy, and the time that a check of a limit takes.

A service with one worker and one with several get the same calls in turns and in changing order. The
load, the upstream and the recorder need processors too, so on a small machine they limit the rate: the
load and the upstream are ``wrk`` and nginx if these are installed, and the recorder is stopped during
calls, and records them between two rounds. One figure is the maximum that this leaves to several
workers: all processors busy, and each call as cheap as with one worker."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench import light_load
from bench.figures import Figure, make_figure
from bench.light_load import OwnLoad, WrkLoad, light_upstream
from bench.load import REPOSITORY, Client, Proxy, UsageLog, taximeter
from bench.options import Options
from runtime import shared_windows
from runtime.shared_windows import SharedWindows

PARTS = ("rate", "checks")
WORKERS, ROUNDS, QUICK_ROUNDS = 2, 9, 2
CONNECTIONS = 32
CALLS, WARM_UP = 2_000, 400  # of a round of our own client
SECONDS, QUICK_SECONDS = 4.0, 2.0  # of a round of wrk
MAX_RATE = 4_000  # calls a second: no machine here makes more
CHECKS = 20_000
HAMMER = """
import sys
from runtime.shared_windows import SharedWindows
windows = SharedWindows(int(sys.argv[1]))
print(flush=True)
while True:
    for number in range(100): windows.admit(f"slug {number}", 300)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The measurements of one service in one round.

    ``proxy_ms`` is the CPU time that the proxy uses per call, ``others_ms`` the CPU time that the load
    generator and the upstream use per call."""

    calls_per_s: float
    proxy_ms: float
    others_ms: float


class Service:
    """A running service, with the numbers of calls sent to it and of its responses."""

    def __init__(self, proxy: Proxy, log: UsageLog, direct: Proxy) -> None:
        self._proxy, self._log, self._direct = proxy, log, direct
        self._sent = self._whole = 0

    def measure(self, load: OwnLoad | WrkLoad, calls: int, seconds: float) -> Round:
        """Make calls, and wait until they are recorded. Raises BenchError if one is missing."""
        before_s, upstream_s = self._proxy.cpu_s()["proxy"], self._direct.cpu_s()["proxy"]
        with self._recorder_held():
            done = load.run(self._proxy, self._sent, calls, seconds)
            proxy_s = self._proxy.cpu_s()["proxy"] - before_s
            others_s = self._direct.cpu_s()["proxy"] - upstream_s + done.cpu_s
        self._sent += done.sent
        self._whole += done.calls
        self._log.settle(self._whole, self._sent)
        return Round(
            calls_per_s=done.calls / done.seconds,
            proxy_ms=proxy_s * 1000 / done.sent,
            others_ms=others_s * 1000 / done.sent,
        )

    @contextmanager
    def _recorder_held(self) -> Iterator[None]:
        pid = self._proxy.pids["recorder"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of several workers compared with one, and of checks. Raises BenchError."""
    if options.wants("rate"):
        yield from measure_workers(options)
    if options.wants("checks"):
        yield from measure_checks()


def measure_workers(options: Options) -> Iterator[Figure]:
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    seconds = options.choose(SECONDS, QUICK_SECONDS)
    total = WARM_UP + max(rounds * CALLS, 40 * MAX_RATE if light_load.is_there() else 0)
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(light_upstream(folder))
        services = []
        for count in (1, WORKERS):
            path = folder / str(count)
            path.mkdir()
            proxy, log = stack.enter_context(taximeter(path, direct.port, total, count))
            services.append(Service(proxy, log, direct))
        client = stack.enter_context(Client())
        load = (
            WrkLoad(folder, CONNECTIONS) if light_load.is_there() else OwnLoad(client, CONNECTIONS)
        )
        for service in services:
            service.measure(load, WARM_UP, 1.0)
        results: list[tuple[Round, Round]] = []
        for number in range(rounds):
            order = (0, 1) if number % 2 else (1, 0)
            found = {each: services[each].measure(load, CALLS, seconds) for each in order}
            results.append((found[0], found[1]))
    yield from make_figures(results, os.cpu_count() or 1)


def make_figures(results: Sequence[tuple[Round, Round]], processors: int) -> Iterator[Figure]:
    """Yield the ratios of several workers to one, and their maximum on this machine."""
    by = "wrk and nginx" if light_load.is_there() else "our own client and upstream"
    one = [pair[0] for pair in results]
    rate = statistics.median(each.calls_per_s for each in one)
    cost_ms = statistics.median(each.proxy_ms for each in one)
    others_ms = statistics.median(each.others_ms for each in one)
    yield make_figure(
        "workers/rate",
        f"calls a second with {WORKERS} workers / with 1, {processors} processors",
        [pair[1].calls_per_s / pair[0].calls_per_s for pair in results],
        target=1.75,
        is_least=True,
        note=f"{rate:,.0f} calls a second with 1; load and upstream are {by}",
    )
    yield make_figure(
        "workers/possible",
        f"the most that is possible with {WORKERS} workers beside load and upstream",
        [
            min(WORKERS, processors / (each.proxy_ms + each.others_ms) * 1000 / each.calls_per_s)
            for each in one
        ],
        note=f"CPU a call: {cost_ms:.3f} ms of the proxy, {others_ms:.3f} ms of load and upstream",
    )


def measure_checks(checks: int = CHECKS) -> Iterator[Figure]:
    """Time checks of the rate limit, alone and while another process checks the same window."""
    fd = shared_windows.create()
    windows = SharedWindows(fd)
    yield make_check("alone", time_checks(windows, checks))
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", HAMMER, str(fd)],
        cwd=REPOSITORY,
        pass_fds=[fd],
        stdout=subprocess.PIPE,
    ) as other:
        try:
            if other.stdout is not None:
                other.stdout.readline()
            yield make_check("beside another process", time_checks(windows, checks))
        finally:
            other.kill()
    windows.close()


def time_checks(windows: SharedWindows, checks: int) -> list[float]:
    """Return the duration of each check in microseconds; most of them admit."""
    times_us = []
    for number in range(checks):
        name = f"slug {number % 100}"
        started_ns = time.perf_counter_ns()
        windows.admit(name, 300)
        times_us.append((time.perf_counter_ns() - started_ns) / 1000)
    return times_us


def make_check(name: str, times_us: Sequence[float]) -> Figure:
    percentiles = statistics.quantiles(times_us, n=100)
    return Figure(
        row=f"workers/check/{name}",
        title=f"a check of the rate limit, {name}: median",
        value=percentiles[49],
        unit="us",
        target=20.0,
        note=f"p99 {percentiles[98]:.1f} us",
    )
