"""``python -m bench.workers``: what several workers of the proxy are worth, and what a limit costs.

A service with one worker and one with several get the same calls in turns and in changing order. The
load, the upstream and the recorder need processors too, so on a small machine they are the bound: the
recorder is held still while calls are made, and records them between two rounds (``--recorder`` lets it
run). A round ends when its last response is there.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.client import CallsJob
from bench.load import (
    CALLS_PER_SLUG,
    REPOSITORY,
    BenchError,
    Client,
    Neighbours,
    Proxy,
    UsageLog,
    taximeter,
    upstream,
)
from runtime import shared_windows
from runtime.shared_windows import SharedWindows

CHECKS = 20_000
WARM_UP = 400
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
    """The measurements of one service in one round."""

    calls_per_s: float
    proxy_ms: float  # of CPU time, for each call


class Service:
    """A running service, and how many calls it was sent."""

    def __init__(self, proxy: Proxy, log: UsageLog, *, holds_recorder: bool) -> None:
        self._proxy, self._log = proxy, log
        self._holds_recorder = holds_recorder
        self._made = 0

    def measure(self, client: Client, calls: int, connections: int) -> Round:
        """Make so many calls, and wait until they are recorded. Raises BenchError."""
        before_s = self._proxy.cpu_s()["proxy"]
        with self._recorder_held():
            result = client.run_calls(
                CallsJob(
                    port=self._proxy.port,
                    paths=self._proxy.paths,
                    run_length=CALLS_PER_SLUG,
                    kind="small",
                    first=self._made,
                    calls=calls,
                    connections=connections,
                )
            )
            proxy_s = self._proxy.cpu_s()["proxy"] - before_s
        self._made += calls
        self._log.wait_for(self._made)
        if self._log.count() != self._made or self._log.count_bad():
            raise BenchError(f"{self._made} calls, {self._log.count()} rows")
        return Round(calls_per_s=calls / result.seconds, proxy_ms=proxy_s * 1000 / calls)

    @contextmanager
    def _recorder_held(self) -> Iterator[None]:
        pid = self._proxy.pids["recorder"]
        if self._holds_recorder:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


def measure_workers(arguments: argparse.Namespace) -> None:
    total = WARM_UP + arguments.rounds * arguments.calls
    counts = (1, arguments.workers)
    with ExitStack() as stack:
        direct = stack.enter_context(upstream())
        services = []
        for count in counts:
            folder = tempfile.TemporaryDirectory(prefix="taximeter-bench-", dir=arguments.dir)
            path = Path(stack.enter_context(folder))
            running = stack.enter_context(taximeter(path, direct.port, total, count))
            services.append(Service(*running, holds_recorder=not arguments.recorder))
        client = stack.enter_context(Client())
        for service in services:
            service.measure(client, WARM_UP, arguments.connections)
        neighbours = Neighbours()
        results: list[tuple[Round, Round]] = []
        for number in range(arguments.rounds):
            order = (0, 1) if number % 2 else (1, 0)
            found = {
                each: services[each].measure(client, arguments.calls, arguments.connections)
                for each in order
            }
            results.append((found[0], found[1]))
        print(f"  others took {neighbours.share():.0%} of the machine meanwhile")
    print_results(results, arguments.workers)


def print_results(results: Sequence[tuple[Round, Round]], workers: int) -> None:
    for name, side in (("1 worker", 0), (f"{workers} workers", 1)):
        rate = median(each[side].calls_per_s for each in results)
        cost = median(each[side].proxy_ms for each in results)
        print(f"  {name:12} {rate:6.0f} calls a second, {cost:.3f} ms of the proxy's CPU a call")
    rates = [several.calls_per_s / one.calls_per_s for one, several in results]
    costs = [several.proxy_ms / one.proxy_ms for one, several in results]
    for name, ratios in (("calls a second", rates), ("CPU a call", costs)):
        print(
            f"  {name:15} x{median(ratios):.2f}   [{min(ratios):.2f} .. {max(ratios):.2f}]"
            f"   over {len(ratios)} rounds"
        )


def measure_checks() -> None:
    """Time checks of the rate limit, alone and while another process checks the same window."""
    fd = shared_windows.create()
    windows = SharedWindows(fd)
    print_checks("alone", time_checks(windows))
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", HAMMER, str(fd)],
        cwd=REPOSITORY,
        pass_fds=[fd],
        stdout=subprocess.PIPE,
    ) as other:
        try:
            if other.stdout is not None:
                other.stdout.readline()
            print_checks("beside another process", time_checks(windows))
        finally:
            other.kill()
    windows.close()


def time_checks(windows: SharedWindows) -> list[float]:
    """Return how many microseconds each check takes; most of them admit."""
    times_us = []
    for number in range(CHECKS):
        name = f"slug {number % 100}"
        started_ns = time.perf_counter_ns()
        windows.admit(name, 300)
        times_us.append((time.perf_counter_ns() - started_ns) / 1000)
    return times_us


def print_checks(name: str, times_us: Sequence[float]) -> None:
    percentiles = statistics.quantiles(times_us, n=100)
    print(
        f"  a check of the rate limit, {name}: {percentiles[49]:.1f} µs at the median,"
        f" {percentiles[98]:.1f} µs at p99"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=2000, help="in each round, for each service")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--recorder", action="store_true", help="let the recorder work meanwhile")
    parser.add_argument("--checks", action="store_true", help="only the checks of the rate limit")
    parser.add_argument(
        "--dir", type=Path, help="where the data goes meanwhile (default: the temporary directory)"
    )
    arguments = parser.parse_args()
    try:
        measure_checks()
        if not arguments.checks:
            measure_workers(arguments)
    except BenchError as error:
        sys.exit(f"bench: {error}")


if __name__ == "__main__":
    main()
