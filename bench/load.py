"""Parts that the benchmarks share: processes, their CPU time, and the rows of the usage log.

All listen on loopback, every process is ended through the handle it was started with, and every
wait has a limit.
"""

import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Literal, Self

import psutil

from bench.client import CallsJob, CallsResult, StreamsJob, StreamsResult
from bench.traffic import Kind
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.paths import trace_path

type Part = Literal["proxy", "recorder", "web", "queries", "cluster", "supervisor"]

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
HOST = "127.0.0.1"
PATIENCE_S, POLL_S = 10.0, 0.002  # of a row
SETTLED_S = 0.5
START_S, STOP_S, DRAIN_S = 120.0, 40.0, 120.0  # so long only where the machine is busy
CALLS_PER_SLUG = 280  # of the 300 that one may take in any minute
MODULES: Mapping[str, Part] = {
    "addon": "proxy",
    "recorder": "recorder",
    "manage.server": "web",
    "dashboard.queries": "queries",
    "cluster": "cluster",
}


class BenchError(Exception):
    """The benchmark cannot continue, or its measurements mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A running proxy: its port, the paths to request, and its processes.

    ``workers`` are processes of the proxy other than the one in ``pids``. ``headers`` are sent with
    every call. The proxy gets 1 / ``divisor`` of the calls that others get."""

    port: int
    paths: Sequence[str]
    pids: Mapping[Part, int]
    workers: Sequence[int] = ()
    headers: str = ""
    divisor: int = 1

    def cpu_s(self) -> dict[Part, float]:
        """Return the user and system time of each part in seconds since its start."""
        found = {part: process_cpu_s(pid) for part, pid in self.pids.items()}
        found["proxy"] += sum(map(process_cpu_s, self.workers))
        return found

    def make_job(
        self, kind: Kind, first: int, calls: int, connections: int, query: str = ""
    ) -> CallsJob:
        """Return the job to make ``calls`` calls of a kind, with numbers from ``first`` on."""
        return CallsJob(
            port=self.port,
            paths=[path + query for path in self.paths],
            run_length=CALLS_PER_SLUG,
            kind=kind,
            first=first,
            calls=calls,
            connections=connections,
            headers=self.headers,
        )

    def rss_mb(self) -> float:
        return float(psutil.Process(self.pids["proxy"]).memory_info().rss) / 1e6


class UsageLog:
    """The rows of a running Taximeter, read through the view ``usage_log``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def count(self) -> int:
        return self._query("select count(*) from usage_log") or 0

    def count_bad(self) -> int:
        """Return the number of rows that are duplicates or incomplete. Raises BenchError if rows cannot be
        read."""
        bad = self._query(
            "select count(*) - count(distinct case when outcome = 'complete' and status_code = 200"
            " and usage_source = 'final' then entry_id end) from usage_log"
        )
        if bad is None:
            raise BenchError(f"the rows of {self.path} cannot be read")
        return bad

    def check(self, calls: int) -> None:
        """Check that there are as many rows as calls, all of them good. Raises BenchError."""
        rows, bad = self.count(), self.count_bad()
        if rows != calls or bad:
            raise BenchError(f"{calls} calls, {rows} rows, {bad} of them not good")

    def settle(self, whole: int, sent: int) -> None:
        """Wait until all calls are rows, also those that were sent but not completed because a load was cut.

        Raises BenchError if other rows are missing or not good."""
        self.wait_for(whole)
        rows = self.count()
        while sent > whole:
            time.sleep(SETTLED_S)
            if rows == (rows := self.count()):
                break
        bad = self.count_bad()
        if rows > sent or bad > sent - whole:
            raise BenchError(f"{whole} calls, {rows} rows, {bad} of them not good")

    def has(self, session: str) -> bool:
        return bool(self._query("select count(*) from usage_log where session_id = ?", session))

    def wait_for(self, wanted: int) -> None:
        """Wait until there are ``wanted`` rows. Raises BenchError if the recorder takes too long."""
        deadline_s = time.monotonic() + DRAIN_S
        while (rows := self.count()) < wanted:
            if time.monotonic() > deadline_s:
                raise BenchError(f"{wanted} calls were made, but there are {rows} rows")
            time.sleep(0.1)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _query(self, statement: str, *parameters: str) -> int | None:
        """Return a number from the view, None before the recorder has created the database."""
        if not self.path.exists():
            return None
        if self._connection is None:
            uri = f"{self.path.as_uri()}?mode=ro"
            self._connection = sqlite3.connect(uri, uri=True, timeout=5)
        with suppress(sqlite3.OperationalError):  # the view is still to come
            return int(self._connection.execute(statement, parameters).fetchone()[0])
        return None


class Client:
    """The process that makes the calls."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.client"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def run_calls(self, job: CallsJob) -> CallsResult:
        return CallsResult(**self._run("calls", asdict(job)))

    def run_streams(self, job: StreamsJob) -> StreamsResult:
        return StreamsResult(**self._run("streams", asdict(job)))

    def _run(self, kind: str, job: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise BenchError("the client has no standard input")
        self._process.stdin.write(json.dumps({"job": kind} | job) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(_read_line(self._process))
        if "error" in result:
            raise BenchError(result["error"])
        return result


class Neighbours:
    """The share of the machine that other programs used. The larger it is, the less reliable are figures.

    Others are all processes but this one and its descendants."""

    def __init__(self) -> None:
        self._start_s, self._start_busy_s = time.monotonic(), self._busy_s()

    def share(self) -> float:
        """Return the share of all processors that others used since this object was made."""
        available_s = (time.monotonic() - self._start_s) * (os.cpu_count() or 1)
        return max(0.0, (self._busy_s() - self._start_busy_s) / available_s)

    @staticmethod
    def _busy_s() -> float:
        times = psutil.cpu_times()
        busy_s = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
        return float(busy_s) - tree_cpu_s(psutil.Process())


def tree_cpu_s(root: psutil.Process) -> float:
    """Return the CPU seconds of a process and its descendants, including those that have ended."""
    total_s = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # its parent has the time of one that has just ended
            times = process.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


@contextmanager
def upstream() -> Iterator[Proxy]:
    """Run the stand-in for the Messages API. Calls made to it directly are the base of comparison."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.upstream"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        port = int(_read_line(process))
        yield Proxy(port=port, paths=["/v1/messages"], pids={"proxy": process.pid})
    finally:
        stop(process)


@contextmanager
def bare_mitmdump(folder: Path, upstream_port: int) -> Iterator[Proxy]:
    """Run ``mitmdump`` as a reverse proxy without addons."""
    port = free_port()
    options = ["--listen-host", HOST, "--listen-port", str(port), "--set", f"confdir={folder}"]
    mode = ["--mode", f"reverse:http://{HOST}:{upstream_port}"]
    with running([BIN / "mitmdump", *mode, *options], folder / "mitmdump.log") as process:
        wait_until_listening(port, process)
        yield Proxy(port=port, paths=["/v1/messages"], pids={"proxy": process.pid})


@contextmanager
def taximeter(
    folder: Path, upstream_port: int, calls: int, workers: int = 1
) -> Iterator[tuple[Proxy, UsageLog]]:
    """Run the whole service, with so many endpoints that ``calls`` calls reach no rate limit.

    The comparison with other proxies uses one worker."""
    trace_file, paths = make_endpoints(folder / "data", -(-calls // CALLS_PER_SLUG) + 1)
    with (
        closing(UsageLog(trace_file)) as log,
        service(folder, upstream_port, paths, workers) as proxy,
    ):
        yield proxy, log


@contextmanager
def service(
    folder: Path,
    upstream_port: int,
    paths: Sequence[str],
    workers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Proxy]:
    """Run the whole service on the data in ``folder``, which has the endpoints in ``paths``.

    ``settings`` are additional settings, such as those of a node in a cluster."""
    port = free_port()
    environment = {
        "TAXIMETER_LISTEN": f"{HOST}:{port}",
        "TAXIMETER_DATA_DIR": str(folder / "data"),
        "TAXIMETER_UPSTREAM_URL": f"http://{HOST}:{upstream_port}",
        "TAXIMETER_WORKERS": str(workers),
    } | dict(settings or {})
    with running([BIN / "taximeter", "up"], folder / "taximeter.log", environment) as process:
        wait_until_healthy(port, process)
        pids, others = find_parts(process.pid)
        yield Proxy(port=port, paths=paths, pids=pids, workers=others)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of the values. Raises BenchError for fewer than two."""
    if len(values) < 2:
        raise BenchError("too few values")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process with SIGTERM, or with SIGKILL if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    environment: Mapping[str, str] | None = None,
    *,
    is_quiet: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with its output in the file ``log``, which is printed if the benchmark fails.

    ``environment`` has additional variables for it."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own commands, and peers
            command,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        except BaseException:
            if not is_quiet:
                print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
            raise
        finally:
            stop(process)


def _read_line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise BenchError(f"process {process.pid} ended; its last lines are above")
    return line


def make_endpoints(data_dir: Path, count: int) -> tuple[Path, list[str]]:
    """Make a data directory with ``count`` endpoints. Return the path of its trace file, and their URL
    paths."""
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
        management = Management(control, data_dir)
        caller = management.local_caller()
        names = (f"bench {number}" for number in range(count))
        slugs = [management.create_endpoint(caller, name).slug for name in names]
    paths = [f"/proxy/{slug}/v1/messages" for slug in slugs]
    return trace_path(data_dir, caller.organization_id), paths


def find_parts(pid: int) -> tuple[dict[Part, int], list[int]]:
    """Return the process id of each part of a service, and those of further workers of the proxy.

    They are recognised by the module that they run."""
    parts: dict[Part, int] = {"supervisor": pid}
    workers: list[int] = []
    for child in psutil.Process(pid).children():  # query processes are children of a child
        part = next((MODULES[word] for word in child.cmdline() if word in MODULES), None)
        if part is None or (part in parts and part != "proxy"):
            raise BenchError(f"unknown process of the service: {child.cmdline()}")
        if part in parts:
            workers.append(child.pid)
        else:
            parts[part] = child.pid
    return parts, workers


def process_cpu_s(pid: int) -> float:
    """Return the user and system time of a process in seconds since its start."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens on the port. Raises BenchError if it ends or takes too long."""
    for _ in _patience(process):
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return


def wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a service is healthy. Raises BenchError if that takes too long."""
    for _ in _patience(process):
        with suppress(OSError), closing(HTTPConnection(HOST, port, timeout=5)) as connection:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return


def _patience(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Yield repeatedly until a process has ended or its start takes too long; then raise BenchError."""
    deadline_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline_s:
        yield
        time.sleep(0.1)
    raise BenchError("a proxy did not start")


def time_entry(client: Client, log: UsageLog, job: StreamsJob) -> float:
    """Make the one call of a job, which names its session; return the milliseconds until it is a row.

    Raises BenchError if it does not become one."""
    (session,) = job.sessions
    (ended_s,) = client.run_streams(job).ended_s
    while not log.has(session):
        if time.monotonic() - ended_s > PATIENCE_S:
            raise BenchError(f"the call of {session} did not become a row")
        time.sleep(POLL_S)
    return (time.monotonic() - ended_s) * 1000


type Work = Callable[[threading.Event], None]
"""Work is done by a thread until the event is set."""


@contextmanager
def background(*works: Work) -> Iterator[None]:
    """Run each of ``works`` in its own thread until the block ends, and wait until all have ended.

    Raises BenchError if one has failed, since the measurement then lacked its load."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def do(work: Work) -> None:
        try:
            work(is_over)
        except Exception as error:  # raised below
            failures.append(error)

    threads = [threading.Thread(target=do, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise BenchError(f"what was to go on meanwhile has failed: {failures[0]!r}")
