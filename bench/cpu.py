"""CPU per call, compared with bare mitmdump, which logs nothing, and with other programs.

All get the same calls, in turns and in changing order, over the same number of connections, as fast as
they can handle them. A round of Taximeter ends when its last call is a row, so all work of the
recorder is counted. The result is the median over the rounds of the ratio of neighbouring
measurements, so other load on the machine affects all programs alike."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from bench.figures import Figure, make_figure
from bench.load import (
    Client,
    Part,
    Proxy,
    UsageLog,
    bare_mitmdump,
    taximeter,
    upstream,
)
from bench.options import Options
from bench.peers import Installed
from bench.traffic import SESSIONS, Kind
from bench.turns import Programs

RECORDING: Sequence[Part] = ("proxy", "recorder")
GROUPS: Mapping[str, Sequence[Part]] = {
    "proxy": ("proxy",),
    "proxy + recorder": RECORDING,
}
ROUNDS, QUICK_ROUNDS, CONNECTIONS = 9, 3, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of calls to measure.

    ``targets`` are the maximum costs of the parts together, as a multiple of bare mitmdump's;
    ``peer_targets`` are the minimum costs of a peer as a multiple of Taximeter's. Peers that cost ten
    times as much get a quarter of the calls."""

    name: str
    title: str
    kind: Kind
    calls: int
    warm_up: int = 200
    query: str = ""
    has_peers: bool = True
    targets: Mapping[Sequence[Part], float] = field(default_factory=dict)
    peer_targets: Mapping[str, float] = field(default_factory=dict)


CASES = (
    Case(
        name="2kb",
        title="2 KB call",
        kind="small",
        calls=800,
        targets={("proxy",): 0.36, RECORDING: 0.60},
        peer_targets={"litellm": 10.0},
    ),
    Case(
        name="2kb-sse",
        title="2 KB call, streamed response",
        kind="streamed",
        calls=500,
        query="?response=sse",
    ),
    Case(
        name="300kb",
        title="300 KB call",
        kind="agent",
        calls=4 * SESSIONS,
        warm_up=2 * SESSIONS,
        targets={RECORDING: 0.95},
        peer_targets={"litellm": 12.0},
    ),
    Case(
        name="300kb-unique",
        title="300 KB call, nothing seen before",
        kind="unique",
        calls=200,
        warm_up=50,
        has_peers=False,
        targets={RECORDING: 2.5},
    ),
)


@dataclass(slots=True, kw_only=True)
class Round:
    """The CPU milliseconds per call in one round, of whole programs and of Taximeter's parts."""

    programs_ms: dict[str, float] = field(default_factory=dict)
    parts_ms: Mapping[Part, float] = field(default_factory=dict)

    def ratio(self, parts: Sequence[Part]) -> float:
        return sum(self.parts_ms[part] for part in parts) / self.programs_ms["bare"]


class Bench:
    """The running programs that one case compares."""

    def __init__(self, case: Case, client: Client, programs: Programs, log: UsageLog) -> None:
        self._case, self._client, self._programs, self._log = case, client, programs, log

    def run(self, rounds: int) -> list[Round]:
        """Measure all programs. Raises BenchError unless every call became one complete row."""
        case = self._case
        self._programs.take_turns(0, partial(self._measure, 0, case.warm_up, Round()))
        results = []
        for number in range(rounds):
            first = case.warm_up + number * case.calls
            results.append(Round())
            measure_one = partial(self._measure, first, case.calls, results[-1])
            self._programs.take_turns(number, measure_one)
        self._log.check(case.warm_up + rounds * case.calls)
        return results

    def _measure(self, first: int, calls: int, into: Round, name: str, proxy: Proxy) -> None:
        calls = max(1, calls // proxy.divisor)
        before = proxy.cpu_s()
        self._client.run_calls(
            proxy.make_job(self._case.kind, first, calls, CONNECTIONS, self._case.query)
        )
        if name == "ours":
            self._log.wait_for(first + calls)
        spent_ms = {
            part: (after - before[part]) * 1000 / calls for part, after in proxy.cpu_s().items()
        }
        into.programs_ms[name] = sum(spent_ms.values())
        if name == "ours":
            into.parts_ms = spent_ms


def measure(options: Options) -> Iterator[Figure]:
    """Yield the figures of all cases. Raises BenchError."""
    for case in CASES:
        if options.wants(case.name):
            yield from measure_case(case, options)


def measure_case(case: Case, options: Options) -> Iterator[Figure]:
    """Yield the figures of one case. Raises BenchError."""
    rounds = options.choose_rounds(ROUNDS, QUICK_ROUNDS)
    peers = options.peers if case.has_peers else ()
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(upstream())
        client = stack.enter_context(Client())
        bare = stack.enter_context(bare_mitmdump(folder, direct.port))
        calls = case.warm_up + rounds * case.calls
        ours, log = stack.enter_context(taximeter(folder, direct.port, calls))
        programs = Programs({"bare": bare, "ours": ours})
        programs.start_peers(stack, peers, folder, direct, case.kind, case.query)
        results = Bench(case, client, programs, log).run(rounds)
    yield from make_figures(case, results)
    for peer in peers:
        yield from make_peer_figures(case, peer, results, programs)


def make_figures(case: Case, rounds: Sequence[Round]) -> Iterator[Figure]:
    """Yield the costs of Taximeter's parts as multiples of bare mitmdump's."""
    row = f"cpu/{case.name}"
    bare_ms = [each.programs_ms["bare"] for each in rounds]
    yield make_figure(f"{row}/bare", f"CPU of a {case.title}: bare mitmdump", bare_ms, "ms")
    for name, parts in GROUPS.items():
        yield make_figure(
            f"{row}/{'+'.join(parts)}",
            f"CPU of a {case.title}: {name} / bare mitmdump",
            [each.ratio(parts) for each in rounds],
            target=case.targets.get(parts),
        )


def make_peer_figures(
    case: Case, peer: Installed, rounds: Sequence[Round], programs: Programs
) -> Iterator[Figure]:
    """Yield the costs of a peer relative to bare mitmdump and to all of Taximeter.

    If they are unknown, the figures have no value, and a note with the reason."""
    note = programs.failures.get(peer.name) or programs.notes[peer.name]
    both = [each for each in rounds if peer.name in each.programs_ms]
    for base, base_title, row, target in (
        ("bare", "bare mitmdump", "of-bare", None),
        ("ours", "Taximeter", "peer", case.peer_targets.get(peer.name)),
    ):
        ratios = [each.programs_ms[peer.name] / each.programs_ms[base] for each in both]
        yield make_figure(
            f"cpu/{case.name}/{row}/{peer.name}",
            f"CPU of a {case.title}: {peer.title} / {base_title}",
            [] if peer.name in programs.failures else ratios,
            target=target,
            is_least=True,
            note=note,
        )
