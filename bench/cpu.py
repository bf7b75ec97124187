"""``python -m bench.cpu``: CPU per call beside bare mitmdump, which logs nothing.

Both proxies get the same calls, in turns and in changing order, over the same number of connections,
as fast as they take them. A round of Taximeter ends when its last call is a row, so the recorder's
share is whole. What counts is the median over the rounds of the ratio of neighbours: the machine
may be as busy as it likes as long as both feel it.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.client import CallsJob
from bench.load import (
    CALLS_PER_SLUG,
    BenchError,
    Client,
    Neighbours,
    Part,
    Proxy,
    UsageLog,
    bare_mitmdump,
    taximeter,
    upstream,
)
from bench.traffic import SESSIONS, Kind

PARTS: Sequence[Part] = ("proxy", "recorder", "web", "supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of calls to measure. ``targets``: what the parts together may cost, bare mitmdump
    being 1."""

    name: str
    kind: Kind
    calls: int
    warm_up: int = 200
    query: str = ""
    targets: Mapping[tuple[Part, ...], float]


CASES = (
    Case(
        name="2kb",
        kind="small",
        calls=800,
        targets={("proxy",): 0.50, ("proxy", "recorder"): 0.75},
    ),
    Case(
        name="2kb-sse",
        kind="small",
        calls=500,
        query="?response=sse",
        targets={},
    ),
    Case(
        name="300kb",
        kind="agent",
        calls=4 * SESSIONS,
        warm_up=2 * SESSIONS,
        targets={("proxy", "recorder"): 1.2},
    ),
    Case(name="300kb-unique", kind="unique", calls=200, warm_up=50, targets={}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The measurements of one round, in CPU milliseconds a call."""

    bare_ms: float
    parts_ms: Mapping[Part, float]

    def ratio(self, parts: Sequence[Part]) -> float:
        return sum(self.parts_ms[part] for part in parts) / self.bare_ms


class Bench:
    def __init__(self, case: Case, client: Client, connections: int) -> None:
        self._case, self._client, self._connections = case, client, connections

    def run(self, bare: Proxy, ours: Proxy, log: UsageLog, rounds: int) -> list[Round]:
        """Measure one case. Raises BenchError unless every call became one complete row."""
        case = self._case
        self._measure(bare, 0, case.warm_up)
        self._measure(ours, 0, case.warm_up, log)
        results = []
        for number in range(rounds):
            first = case.warm_up + number * case.calls
            if number % 2:
                parts_ms = self._measure(ours, first, case.calls, log)
                bare_ms = self._measure(bare, first, case.calls)["proxy"]
            else:
                bare_ms = self._measure(bare, first, case.calls)["proxy"]
                parts_ms = self._measure(ours, first, case.calls, log)
            results.append(Round(bare_ms=bare_ms, parts_ms=parts_ms))
        made = case.warm_up + rounds * case.calls
        if log.count() != made or log.count_bad():
            raise BenchError(
                f"{made} calls, {log.count()} rows, {log.count_bad()} of them not good"
            )
        print(f"{case.name}: {made} calls, {made} rows, each once and complete")
        return results

    def _measure(
        self, proxy: Proxy, first: int, calls: int, log: UsageLog | None = None
    ) -> dict[Part, float]:
        before = proxy.cpu_s()
        self._client.run_calls(
            CallsJob(
                port=proxy.port,
                paths=[path + self._case.query for path in proxy.paths],
                run_length=CALLS_PER_SLUG,
                kind=self._case.kind,
                first=first,
                calls=calls,
                connections=self._connections,
            )
        )
        if log is not None:
            log.wait_for(first + calls)
        return {
            part: (after - before[part]) * 1000 / calls for part, after in proxy.cpu_s().items()
        }


def run_case(case: Case, rounds: int, connections: int, parent: Path | None) -> list[Round]:
    calls = case.warm_up + rounds * case.calls
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="taximeter-bench-", dir=parent))
        )
        direct = stack.enter_context(upstream())
        bare = stack.enter_context(bare_mitmdump(folder, direct.port))
        ours, log = stack.enter_context(taximeter(folder, direct.port, calls))
        client = stack.enter_context(Client())
        neighbours = Neighbours()
        results = Bench(case, client, connections).run(bare, ours, log, rounds)
        print(f"  others took {neighbours.share():.0%} of the machine meanwhile")
        return results


def print_case(case: Case, rounds: Sequence[Round]) -> None:
    bare_ms = median(each.bare_ms for each in rounds)
    print(f"  {'bare mitmdump':34}  1.00   ({bare_ms:.3f} ms a call)")
    for part in PARTS:
        print_ratio(part, [each.ratio((part,)) for each in rounds], case.targets.get((part,)))
    for parts in (("proxy", "recorder"), PARTS):
        ratios = [each.ratio(parts) for each in rounds]
        print_ratio(" + ".join(parts), ratios, case.targets.get(tuple(parts)))


def print_ratio(name: str, ratios: Sequence[float], target: float | None) -> None:
    middle = median(ratios)
    verdict = ""
    if target is not None:
        verdict = f"   target <= {target:.2f}: {'met' if middle <= target else 'NOT MET'}"
    print(f"  {name:34} {middle:5.2f}   [{min(ratios):.2f} .. {max(ratios):.2f}]{verdict}")


def main() -> None:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(prog="python -m bench.cpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument(
        "--dir", type=Path, help="where the data goes meanwhile (default: the temporary directory)"
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(names)}")
    arguments = parser.parse_args()
    if not set(arguments.cases) <= set(names):
        parser.error(f"the cases are {', '.join(names)}")
    try:
        for case in CASES:
            if not arguments.cases or case.name in arguments.cases:
                print_case(
                    case, run_case(case, arguments.rounds, arguments.connections, arguments.dir)
                )
    except BenchError as error:
        sys.exit(f"bench: {error}")


if __name__ == "__main__":
    main()
