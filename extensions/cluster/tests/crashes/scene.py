"""The scene of the programme: nodes, servers and the load; and what a case may do to them."""

import os
import signal
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from extensions.cluster.tests.crashes.judging import Away, find_differences, find_excess, join
from store.traces.database import TraceDatabase
from tests.faults.load import Address, Load
from tests.faults.oracle import Call, Row, Verdict, is_numbered, judge, number_of
from tests.faults.scene import COLUMNS, Excuses, end_worker, select_seen
from tests.live.service import Child, Service
from tests.upstream import Script, SeenRequest, Upstream, wait_until

SLUGS = [f"load-{number}" for number in range(8)]
PRESSED = "load-pressed"
TURN_CALLS = 30  # after so many, calls of each kind go to the next node
RECOVERY_CALLS = 12
PATIENCE_S = 60.0
LIMITS_BY_ITSELF = "this node limits by itself"


@dataclass(frozen=True, slots=True)
class Case[S: Scene]:
    """A fault. ``do`` breaks something while calls go on, and returns once it is mended or mends itself.
    With ``is_away`` some node may be without Redis meanwhile, so that it limits by itself."""

    name: str
    do: Callable[[S], None]
    is_away: bool = False
    may_miss_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a case, how many calls were refused at the limit, what became of those that were
    disturbed, and how long it took."""

    name: str
    verdict: Verdict
    refused: int
    seconds: float


class Scene:
    """A cluster under load. The first recorder node is the one with the pages."""

    def __init__(
        self,
        proxies: Sequence[Service],
        recorders: Sequence[Service],
        upstream: Upstream,
        rate: float,
        lasts_s: float,
        *,
        slugs: Sequence[str] = SLUGS,
    ) -> None:
        self.proxies = list(proxies)
        self.serving = list(proxies)
        self.recorders = list(recorders)
        self.upstream = upstream
        self.lasts_s = lasts_s
        self.turn = 0
        self._slugs = slugs
        self.excuses = Excuses()
        self.away = Away(len(proxies))
        self._down: list[tuple[Service, float, float]] = []
        self._chosen: dict[int, Service] = {}
        self._times_s: dict[str, list[float]] = defaultdict(list)
        self._first = 0
        self._rows = 0
        self.load = Load(self._find_address, upstream, slugs, rate, most_attempts=1)
        self._choose = upstream.choose
        upstream.choose = self._note
        for slug in dict.fromkeys(slugs):
            self.home.create_endpoint(slug)
        for proxy in proxies:
            self.wait_for_slugs(proxy)

    @property
    def home(self) -> Service:
        """Return the node with the pages."""
        return self.recorders[0]

    @property
    def nodes(self) -> list[Service]:
        return [*self.proxies, *self.recorders]

    def __enter__(self) -> Self:
        self.load.__enter__()
        self.load.wait_for(1)
        self.settle()
        return self

    def __exit__(self, *error: object) -> None:
        self.load.__exit__(*error)

    def run(self, case: Case[Self], calls: int) -> Result:
        """Run a case with so many calls before it, and compare. The load is paused at the end."""
        begun_s = time.monotonic()
        self.excuses = Excuses()
        self._down.clear()
        self.load.resume()
        with self._maybe_away(case):
            self.load.wait_for(calls)
            case.do(self)
            for node in self.nodes:
                node.wait_healthy()
            self.load.wait_for(RECOVERY_CALLS)
            self.load.pause()
        verdict = self.settle(case.may_miss_bytes)
        self.turn += 1
        refused = sum(map(was_refused, self.load.calls))
        return Result(case.name, verdict, refused, time.monotonic() - begun_s)

    @contextmanager
    def _maybe_away(self, case: Case[Self]) -> Iterator[None]:
        """Note the time of a block in which nodes limited by themselves: where the case says that they
        may, or they have said so in their logs, since a busy machine did not let Redis answer in time."""
        begun_s, said = time.monotonic(), self._count_said()
        yield
        if case.is_away or self._count_said() != said:
            self.away.spans.append((begun_s, time.monotonic()))

    def _count_said(self) -> int:
        return sum(node.output.count(LIMITS_BY_ITSELF) for node in self.proxies)

    # --- the comparison ---

    def settle(self, may_miss_bytes: bool = False) -> Verdict:
        """End all calls, and compare what was seen, heard and recorded since the last time."""
        self.load.pause()
        seen = select_seen(self.load, self.upstream)
        # What is lost never comes: then the comparison says so.
        with suppress(TimeoutError):
            wait_until(
                lambda: all(self._count(node) >= len(seen) for node in self.recorders),
                "the rows of all calls in both copies",
                patience_s=PATIENCE_S,
            )
        wait_until(
            lambda: not any(list_unshipped(node) for node in self.proxies),
            "the shipping of all calls",
            patience_s=PATIENCE_S,
        )
        for node in self.recorders:
            node.wait_spool_empty()
        copies = [self._read_rows(node) for node in self.recorders]
        calls = self.load.calls
        verdicts = [
            judge(seen, calls, rows, self._is_excused, may_miss_bytes=may_miss_bytes)
            for rows in copies
        ]
        verdict = join(verdicts)
        verdict.wrong += find_differences(*copies)
        verdict.wrong += self._find_excesses()
        for node in self.nodes:
            verdict.wrong += [f"{name} was set aside" for name in list_set_aside(node)]
        self._first = max([self._first, *(call.number + 1 for call in calls)])
        self._rows += len(copies[0])
        return verdict

    def verify(self) -> list[str]:
        """Return what `taximeter verify` finds in both copies, and whether a row came too late."""
        found = []
        for number, node in enumerate(self.recorders):
            if (path := find_traces(node)) is not None:
                with closing(TraceDatabase(path)) as database:
                    found += [f"copy {number}: {problem}" for problem in database.verify()]
            if (rows := self._count(node, since=0)) != self._rows:
                found.append(f"copy {number} has {rows} rows of {self._rows}")
        return found

    def _count(self, node: Service, since: int | None = None) -> int:
        first = self._first if since is None else since
        rows = read(
            node,
            "select count(*) n from usage_log where max_tokens > ? and slug like 'load-%'",
            first,
        )
        return rows[0]["n"] if rows else 0

    def _read_rows(self, node: Service) -> Sequence[Row]:
        return read(
            node,
            f"select {COLUMNS} from usage_log where max_tokens > ? and slug like 'load-%' order by id",  # noqa: S608 - ours
            self._first,
        )

    def _find_excesses(self) -> list[str]:
        found = []
        for slug, times_s in self._times_s.items():
            if excess := find_excess(times_s, self.away):
                found.append(f"{slug}: {excess} requests more than allowed in a minute")
            # Later minutes begin after these.
            self._times_s[slug] = [each for each in times_s if each > time.monotonic() - 120]
        return found

    def _is_excused(self, call: Call) -> bool:
        node, first, last = self._chosen.get(call.number), call.attempts[0], call.last
        return (
            self.excuses.hold_for(call)
            or was_refused(call)
            or any(
                node is down and first.begun_s <= end and last.ended_s >= begin
                for down, begin, end in self._down
            )
        )

    # --- the load ---

    def _find_address(self, number: int) -> Address:
        """Return the node of a call: connections keep to theirs."""
        serving = self.serving
        node = serving[(number + number // TURN_CALLS) % len(serving)]
        self._chosen[number] = node
        return node.address

    def _note(self, seen: SeenRequest) -> Script | None:
        if is_numbered(seen.target):
            slug = self._slugs[number_of(seen.target) % len(self._slugs)]
            self._times_s[slug].append(time.monotonic())
        return self._choose(seen) if self._choose else None

    # --- what cases do ---

    def choose_proxy(self) -> Service:
        """Return a proxy node, another one in each turn."""
        return self.proxies[self.turn % len(self.proxies)]

    def choose_recorder(self) -> Service:
        """Return a recorder node, another one in each turn."""
        return self.recorders[self.turn % len(self.recorders)]

    def last(self) -> None:
        """Let a fault last as long as it lasts."""
        ends_s = time.monotonic() + self.lasts_s
        while time.monotonic() < ends_s:
            self.load.wait_for(5)

    def end_worker(self, node: Service, number: signal.Signals) -> None:
        """End the proxy process of a node by a signal, and wait for the one in its place."""
        end_worker(node, self.excuses, number)

    def end_child(self, node: Service, name: Child, number: signal.Signals) -> None:
        """End another process of a node by a signal, and wait for the one in its place."""
        pids = node.pids()
        os.kill(pids[name], number)
        node.wait_restarted({name: pids[name]})

    def restart(self, node: Service, number: signal.Signals, *, all_at_once: bool = False) -> None:
        """End a node by a signal to its supervisor, or to all of its processes, and start it again."""
        with self.excused(node):
            root = psutil.Process(node.pid)
            children = root.children(recursive=True)
            for process in (root, *children) if all_at_once else (root,):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            node.wait()
            psutil.wait_procs(children, timeout=PATIENCE_S)
            self.load.wait_for(RECOVERY_CALLS)
            node.start()

    @contextmanager
    def excused(self, node: Service) -> Iterator[None]:
        """Excuse the calls through a proxy node within the block."""
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self._down.append((node, begun_s, time.monotonic()))

    def wait_for_slugs(self, node: Service) -> None:
        """Wait until a proxy node knows all endpoints."""
        query = "select count(*) n from proxy_endpoints"
        home, own = (each.data_dir / "control.db" for each in (self.home, node))
        wait_until(
            lambda: read_file(own, query) == read_file(home, query),
            "the endpoints on a proxy node",
            patience_s=PATIENCE_S,
        )

    def has_been_seen_until(self, number: int) -> bool:
        """Return whether upstream has seen all calls before this one, or they have ended."""
        seen = {number_of(each.target) for each in self.upstream.requests}
        ended = {call.number for call in self.load.calls}
        return set(range(self._first, number)) <= seen | ended

    def wait_for_failure(self, node: Service) -> None:
        """Wait until a node says that something is wrong."""
        wait_until(lambda: node.health() == 503, "a complaint", patience_s=PATIENCE_S)


def was_refused(call: Call) -> bool:
    """Return whether a call was refused since its endpoint was at its limit."""
    return call.last.status == 429


def list_unshipped(node: Service) -> list[str]:
    """Return the calls of a proxy node that are not shipped."""
    paths = (node.data_dir / "outgoing").glob("*/*~*")
    return [path.name for path in paths if path.suffix in (".open", ".done")]


def list_set_aside(node: Service) -> list[str]:
    return [path.name for path in node.data_dir.glob("*/unreadable/*")]


def find_traces(node: Service) -> Path | None:
    """Return the trace database of a node, or None before its first call."""
    path = next(node.data_dir.glob("traces/*/traces.db"), None)
    is_made = path is not None and read_file(
        path, "select 1 from sqlite_schema where name = 'usage_log'"
    )
    return path if is_made else None


def read(node: Service, query: str, *values: object) -> list[dict[str, Any]]:
    """Return rows of the trace database of a node, none where there is none."""
    path = find_traces(node)
    return [] if path is None else read_file(path, query, *values)


def read_file(path: Path, query: str, *values: object) -> list[dict[str, Any]]:
    """Return rows of a database that others write."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(query, values)]
