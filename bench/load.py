"""What the benchmarks share: starting and ending the processes, counting their CPU, reading rows.

Everything listens on loopback, every process is ended by the handle it was started with, and every
wait has an end.
"""

import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Literal, Self

import psutil

from bench.client import CallsJob, CallsResult, StreamsJob, StreamsResult
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.paths import trace_path

type Part = Literal["proxy", "recorder", "web", "queries", "supervisor"]

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
HOST = "127.0.0.1"
START_S, STOP_S, DRAIN_S = 30.0, 40.0, 60.0
CALLS_PER_SLUG = 280  # of the 300 that one may take in any minute
MODULES: Mapping[str, Part] = {
    "addon": "proxy",
    "recorder": "recorder",
    "manage.server": "web",
    "dashboard.queries": "queries",
}


class BenchError(Exception):
    """The benchmark cannot go on, or what it measured means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Something that forwards, where it listens, and the paths to ask it for."""

    port: int
    paths: Sequence[str]
    pids: Mapping[Part, int]

    def cpu_s(self) -> dict[Part, float]:
        """User and system time since each process started."""
        return {part: _cpu_s(pid) for part, pid in self.pids.items()}

    def rss_mb(self) -> float:
        return float(psutil.Process(self.pids["proxy"]).memory_info().rss) / 1e6


class UsageLog:
    """The rows of a running Taximeter, through the view that everybody else reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def count(self) -> int:
        return self._query("select count(*) from usage_log")

    def count_bad(self) -> int:
        """Those that are doubled, or do not say of a good call that it was one."""
        return self._query(
            "select count(*) - count(distinct case when outcome = 'complete' and status_code = 200"
            " and usage_source = 'final' then entry_id end) from usage_log"
        )

    def has(self, session: str) -> bool:
        return self._query("select count(*) from usage_log where session_id = ?", session) > 0

    def wait_for(self, wanted: int) -> None:
        """Raises BenchError when the recorder does not get there."""
        deadline_s = time.monotonic() + DRAIN_S
        while (rows := self.count()) < wanted:
            if time.monotonic() > deadline_s:
                raise BenchError(f"{wanted} calls were made, and {rows} are rows")
            time.sleep(0.1)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _query(self, statement: str, *parameters: str) -> int:
        """0 while the recorder has not made the database yet."""
        if not self._path.exists():
            return 0
        if self._connection is None:
            uri = f"{self._path.as_uri()}?mode=ro"
            self._connection = sqlite3.connect(uri, uri=True, timeout=5)
        with suppress(sqlite3.OperationalError):  # the view is still to come
            return int(self._connection.execute(statement, parameters).fetchone()[0])
        return 0


class Client:
    """The process that makes the load."""

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
        return CallsResult(**self._ask("calls", asdict(job)))

    def run_streams(self, job: StreamsJob) -> StreamsResult:
        return StreamsResult(**self._ask("streams", asdict(job)))

    def _ask(self, kind: str, job: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise BenchError("the client cannot be told anything")
        self._process.stdin.write(json.dumps({"job": kind} | job) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(_read_line(self._process))
        return answer


class Neighbours:
    """How much of the machine others take meanwhile: what is measured is worth less the more that
    is. Others are all but this process and its descendants, such as the query processes of a service."""

    def __init__(self) -> None:
        self._start_s, self._start_busy_s = time.monotonic(), self._busy_s()

    def share(self) -> float:
        """Of all processors, since this was made."""
        available_s = (time.monotonic() - self._start_s) * (os.cpu_count() or 1)
        return max(0.0, (self._busy_s() - self._start_busy_s) / available_s)

    @staticmethod
    def _busy_s() -> float:
        times = psutil.cpu_times()
        busy_s = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
        return float(busy_s) - tree_cpu_s(psutil.Process())


def tree_cpu_s(root: psutil.Process) -> float:
    """Return what a process and its descendants have used, also those that have ended."""
    total_s = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # its parent has the time of one that has just ended
            times = process.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


@contextmanager
def upstream() -> Iterator[Proxy]:
    """The stand-in for the messages API; asked directly, it is what a proxy is compared with."""
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
    """``mitmdump`` as a reverse proxy and nothing else."""
    port = _free_port()
    options = ["--listen-host", HOST, "--listen-port", str(port), "--set", f"confdir={folder}"]
    mode = ["--mode", f"reverse:http://{HOST}:{upstream_port}"]
    with _running([BIN / "mitmdump", *mode, *options], folder / "mitmdump.log") as process:
        _wait_until_listening(port, process)
        yield Proxy(port=port, paths=["/v1/messages"], pids={"proxy": process.pid})


@contextmanager
def taximeter(folder: Path, upstream_port: int, calls: int) -> Iterator[tuple[Proxy, UsageLog]]:
    """The whole service, with endpoints enough for so many calls at any speed."""
    data_dir, port = folder / "data", _free_port()
    organization_id, slugs = _make_endpoints(data_dir, -(-calls // CALLS_PER_SLUG) + 1)
    environment = os.environ | {
        "TAXIMETER_LISTEN": f"{HOST}:{port}",
        "TAXIMETER_DATA_DIR": str(data_dir),
        "TAXIMETER_UPSTREAM_URL": f"http://{HOST}:{upstream_port}",
    }
    log = UsageLog(trace_path(data_dir, organization_id))
    with (
        closing(log),
        _running([BIN / "taximeter", "up"], folder / "taximeter.log", environment) as process,
    ):
        _wait_until_healthy(port, process)
        paths = [f"/proxy/{slug}/v1/messages" for slug in slugs]
        yield Proxy(port=port, paths=paths, pids=_find_parts(process.pid)), log


def percentile(values: Sequence[float], percent: int) -> float:
    """Raises BenchError when there are too few to tell."""
    if len(values) < 2:
        raise BenchError("too few values")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def stop(process: subprocess.Popen[Any]) -> None:
    """SIGTERM, and SIGKILL when that does not do."""
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
def _running(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """What it prints goes to a file, which is shown when the benchmark fails."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own two commands
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            yield process
        except BaseException:
            print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
            raise
        finally:
            stop(process)


def _read_line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise BenchError(f"process {process.pid} ended; its last words are above")
    return line


def _make_endpoints(data_dir: Path, count: int) -> tuple[str, list[str]]:
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
        management = Management(control, data_dir)
        caller = management.local_caller()
        names = (f"bench {number}" for number in range(count))
        slugs = [management.create_endpoint(caller, name).slug for name in names]
    return caller.organization_id, slugs


def _find_parts(pid: int) -> dict[Part, int]:
    """The processes of a service, by the module each of them runs."""
    parts: dict[Part, int] = {"supervisor": pid}
    for child in psutil.Process(pid).children():  # query processes are children of a child
        part = next((MODULES[word] for word in child.cmdline() if word in MODULES), None)
        if part is None or part in parts:
            raise BenchError(f"what is this process of the service? {child.cmdline()}")
        parts[part] = child.pid
    return parts


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in _patience(process):
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in _patience(process):
        with suppress(OSError), closing(HTTPConnection(HOST, port, timeout=5)) as connection:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return


def _patience(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Goes round until the process has ended or ought to be up; then raises BenchError."""
    deadline_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline_s:
        yield
        time.sleep(0.1)
    raise BenchError("a proxy did not start")
