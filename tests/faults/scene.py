"""The scene of the programme: a service, its upstream, and the load; and what a case may do to them."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

import psutil

from metering.budget_periods import Span
from runtime.settings import Settings
from store.traces.database import TraceDatabase
from store.traces.sums.spend import read_spends_of
from tests.faults.control import Control
from tests.faults.load import HEADERS, Load
from tests.faults.oracle import Call, Row, Seen, Verdict, is_numbered, judge, number_of
from tests.faults.usage import Usage, find_growth, has_begun, measure
from tests.live.service import START_S, Child, Service
from tests.rawclient import request
from tests.upstream import Upstream, wait_until

SLUGS = 16
RECOVERY_CALLS = 12
ALWAYS = Span(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
COLUMNS = (
    "id, entry_id, max_tokens, outcome, status_code, cost_cents, request_body, response_body,"
    " body_notes"
)


type Needs = Literal["small disk", "clock"]


@dataclass(frozen=True, slots=True)
class Case:
    """A fault. ``do`` breaks something while calls go on, and returns once it is mended or mends itself."""

    name: str
    do: Callable[["Scene"], None]
    in_suite: bool = True
    needs: Needs | None = None
    may_miss_bytes: bool = False
    may_keep_mb: float = 60.0  # more than before: caches fill


@dataclass(slots=True)
class Excuses:
    """The calls that a fault may disturb: those on some connections, those in some spans of time."""

    ports: set[int] = field(default_factory=set)
    spans: list[tuple[float, float]] = field(default_factory=list)

    def hold_for(self, call: Call) -> bool:
        first, last = call.attempts[0], call.attempts[-1]
        return any(each.port in self.ports for each in call.attempts) or any(
            first.begun_s <= end and last.ended_s >= begin for begin, end in self.spans
        )


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a case, what the service used before and after it, and how long it took.

    ``control_s`` are the times of calls that another service had meanwhile, if there is one."""

    case: Case
    verdict: Verdict
    before: Usage
    after: Usage
    seconds: float
    control_s: Sequence[float] = ()

    def find_growth(self) -> list[str]:
        """Return what the service uses more than before, beyond what caches and connections may."""
        return find_growth(self.before, self.after, self.case.may_keep_mb)


def stop_worker(service: Service, excuses: Excuses) -> psutil.Process:
    """Stop a worker of the proxy with SIGSTOP, and excuse the calls on its connections."""
    victim = psutil.Process(min(service.worker_pids()))
    victim.suspend()  # until it stands still, it goes on to take connections
    wait_until(lambda: victim.status() == psutil.STATUS_STOPPED, "a worker that stands still")
    excuses.ports |= {
        each.raddr.port
        for each in victim.net_connections()
        if each.status == psutil.CONN_ESTABLISHED
    }
    return victim


def end_worker(service: Service, excuses: Excuses, number: signal.Signals) -> None:
    """End a worker by a signal, and wait for the one in its place."""
    workers = len(service.worker_pids())
    victim = stop_worker(service, excuses)
    victim.send_signal(number)
    with suppress(psutil.NoSuchProcess):  # SIGKILL ends what is stopped, too
        victim.resume()
    wait_until(
        lambda: len(service.worker_pids() - {victim.pid}) == workers,
        "another worker in its place",
        patience_s=START_S,
    )


def select_seen(load: Load, upstream: Upstream) -> list[Seen]:
    """Return the requests of the load that upstream has seen since it was last resumed."""
    return [
        Seen(
            number_of(each.target),
            bytes(each.body),
            each.whole.is_set(),
            load.spoiled.get(number_of(each.target)),
        )
        for each in upstream.requests
        if is_numbered(each.target)
    ]


class Scene:
    """A running service under load. ``lasts_s`` is how long a fault lasts that lasts for a time,
    ``clock_file`` the file that libfaketime reads, and ``control`` a service to compare with."""

    def __init__(
        self,
        service: Service,
        upstream: Upstream,
        rate: float,
        lasts_s: float,
        *,
        clock_file: Path | None = None,
        control: Control | None = None,
    ) -> None:
        self.service = service
        self._control = control
        self.upstream = upstream
        self.lasts_s = lasts_s
        self.clock_file = clock_file
        self.excuses = Excuses()
        self._last_id = 0
        self._not_kept = 0
        self.slugs = [f"load-{number}" for number in range(SLUGS)]
        for slug in self.slugs:
            service.create_endpoint(slug)
        self.load = Load(lambda _: service.address, upstream, self.slugs, rate)

    def __enter__(self) -> Self:
        self.load.__enter__()
        self.load.wait_for(1)  # which makes the trace database
        self.service.wait_for_rows(1)
        self.settle()
        return self

    def __exit__(self, *error: object) -> None:
        self.load.__exit__(*error)

    def run(self, case: Case, calls: int) -> Result:
        """Run a case with so many calls before it, and compare. The load is paused at the end."""
        begun_s = time.monotonic()
        before = self._measure_before()
        self.excuses = Excuses()
        self._not_kept = self._count_not_kept()
        self.load.resume()
        if self._control is not None:
            self._control.resume()
        self.load.wait_for(calls)
        try:
            case.do(self)
        finally:
            self.load.spoil = None
        self.service.wait_healthy()
        self.load.wait_for(RECOVERY_CALLS)
        control_s = self._control.pause() if self._control is not None else []
        verdict = self.settle(case.may_miss_bytes)
        seconds = time.monotonic() - begun_s
        after = self._measure_after(case, before)
        return Result(case, verdict, before, after, seconds, control_s)

    def _measure_before(self) -> Usage:
        """Return what the service uses once all has begun: the case before may have started it again."""
        count = Settings.from_env(self.service.environment).query_processes + 1
        wait_until(lambda: has_begun(self.service, count), "all query processes")
        return measure(self.service)

    def _measure_after(self, case: Case, before: Usage) -> Usage:
        """Return what the service uses once it uses little more than before, or after some seconds."""
        found = [measure(self.service)]

        def is_back() -> bool:
            found.append(measure(self.service))
            return not find_growth(before, found[-1], case.may_keep_mb)

        with suppress(TimeoutError):
            wait_until(is_back, "memory and descriptors that are back")
        return found[-1]

    def settle(self, may_miss_bytes: bool = False) -> Verdict:
        """End all calls, and compare what was seen, heard and recorded since the last time."""
        self.load.pause()
        seen = select_seen(self.load, self.upstream)
        self.service.wait_spool_empty()
        rows = self._read_rows()
        verdict = judge(
            seen, self.load.calls, rows, self.excuses.hold_for, may_miss_bytes=may_miss_bytes
        )
        verdict.note_not_kept(self._count_not_kept() - self._not_kept)
        verdict.wrong += [f"{name} was set aside" for name in self.service.unreadable_files()]
        verdict.wrong += self._compare_sums()
        return verdict

    def verify(self) -> list[str]:
        """Return what `taximeter verify` finds in the trace database."""
        with closing(TraceDatabase(self.trace_path)) as database:
            return [str(problem) for problem in database.verify()]

    @property
    def trace_path(self) -> Path:
        [path] = self.service.data_dir.glob("traces/*/traces.db")
        return path

    def _read_rows(self) -> Sequence[Row]:
        with closing(sqlite3.connect(f"file:{self.trace_path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            rows: list[Any] = database.execute(
                f"select {COLUMNS} from usage_log where id > ? and slug like 'load-%' order by id",  # noqa: S608 - ours
                (self._last_id,),
            ).fetchall()
        self._last_id = max([self._last_id, *(row["id"] for row in rows)])
        return [dict(row) for row in rows]

    def _compare_sums(self) -> list[str]:
        """Compare what budgets go by, the sums of hours and days, with the costs of all rows."""
        (spend,) = read_spends_of(self.trace_path, [(ALWAYS, None, None)])
        with closing(sqlite3.connect(f"file:{self.trace_path}?mode=ro", uri=True)) as database:
            (cents,) = database.execute("select coalesce(sum(cost_cents), 0) from usage").fetchone()
        is_same = abs(spend.cents - cents) < 1e-6
        return [] if is_same else [f"budgets see {spend.cents} cents of {cents}"]

    def _count_not_kept(self) -> int:
        """Return how many calls the service says that it could not keep."""
        return int(json.loads(self.service.get("/healthz").body)["not_kept"]["calls"])

    # --- what cases do ---

    def stop_worker(self) -> psutil.Process:
        """Stop a worker, and excuse the calls on its connections."""
        return stop_worker(self.service, self.excuses)

    def end_worker(self, number: signal.Signals) -> None:
        """End a worker by a signal, and wait for the one in its place."""
        end_worker(self.service, self.excuses, number)

    def end(self, number: signal.Signals, *names: Child) -> None:
        """End children by a signal, and wait for others in their places."""
        pids = self.service.pids()
        for name in names:
            os.kill(pids[name], number)
        self.service.wait_restarted({name: pids[name] for name in names})

    def kill_workers_and_recorder(self) -> None:
        """Kill all of them at once, and wait for others in their places."""
        service = self.service
        with self.everybody_excused():
            workers = service.worker_pids()
            pids = workers | {service.pids()["recorder"]}
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            wait_until(
                lambda: (
                    len(service.worker_pids() - pids) == len(workers)
                    and service.pids().get("recorder") not in {None, *pids}
                ),
                "others in their places",
                patience_s=START_S,
            )
            service.wait_healthy()

    def post(self, target: str) -> int:
        """Make a call that is no part of the load, and return its status."""
        return self.service.send(request("POST", target, HEADERS, b"{}")).status

    def find_spool_files(self, ending: str) -> list[Path]:
        """Return the files of calls that are in the spool with this ending of their names."""
        return sorted((self.service.data_dir / "spool").glob(f"*/*{ending}"))

    @contextmanager
    def everybody_excused(self) -> Iterator[None]:
        """Excuse all calls within the block, and those that have waited for its end."""
        begun_s = time.monotonic()
        try:
            yield
            self.load.catch_up()
        finally:
            self.excuses.spans.append((begun_s, time.monotonic()))

    def last(self) -> None:
        """Let a fault last as long as it lasts."""
        ends_s = time.monotonic() + self.lasts_s
        while time.monotonic() < ends_s:
            self.load.wait_for(5)

    def complaints(self) -> list[str]:
        """Return why the service says that it is not healthy."""
        reasons: list[str] = json.loads(self.service.get("/healthz").body)["reasons"]
        return reasons
