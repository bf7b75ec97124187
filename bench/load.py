"""What the benchmarks share: starting and ending the processes, counting their CPU, reading rows.

Everything listens on loopback, every process is ended by the handle it was started with, and every
wait has an end.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from bench.client import CallsJob, CallsResult, StreamsJob, StreamsResult

type Part = Literal["proxy", "recorder", "web", "supervisor"]

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
START_S, STOP_S, DRAIN_S = 30.0, 40.0, 60.0
CALLS_PER_SLUG = 280  # of the 300 that one may take in any minute
MODULES: Mapping[str, Part] = {"addon": "proxy", "recorder": "recorder", "manage.server": "web"}


class BenchError(Exception):
    """The benchmark cannot go on, or what it measured means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Something that listens on loopback, and the paths to ask it for."""

    port: int
    pids: Mapping[Part, int]
    paths: Sequence[str]

    def cpu_s(self) -> dict[Part, float]:
        return {part: _cpu_s(pid) for part, pid in self.pids.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taximeter(Proxy):
    database: Path
    spool: Path

    def count_rows(self) -> int:
        """0 while the recorder has not made the database yet."""
        return self.query("select count(*) from usage_log")

    def count_bad_rows(self) -> int:
        """Doubled ones, and those that do not say of a good call that it was one."""
        return self.query(
            "select count(*) - count(distinct case when outcome = 'complete' and status_code = 200"
            " and usage_source = 'final' then entry_id end) from usage_log"
        )

    def has_session(self, session: str) -> bool:
        return self.query("select count(*) from usage_log where session_id = ?", session) > 0

    def query(self, statement: str, *parameters: str) -> int:
        if not self.database.exists():
            return 0
        uri = f"{self.database.as_uri()}?mode=ro"
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(uri, uri=True, timeout=5)) as connection,
        ):
            return int(connection.execute(statement, parameters).fetchone()[0])
        return 0

    def wait_for_rows(self, wanted: int) -> None:
        """Raises BenchError when the recorder does not get there."""
        deadline_s = time.monotonic() + DRAIN_S
        while (rows := self.count_rows()) < wanted:
            if time.monotonic() > deadline_s:
                raise BenchError(f"{wanted} calls were made and {rows} are rows")
            time.sleep(0.1)

    def rss_mb(self) -> float:
        return float(psutil.Process(self.pids["proxy"]).memory_info().rss) / 1e6


class Client:
    """The process that makes the load."""

    def __init__(self) -> None:
        self._process = _start("bench.client")

    def make_calls(self, job: CallsJob) -> CallsResult:
        return CallsResult(**self._ask({"job": "calls"} | asdict(job)))

    def make_streams(self, job: StreamsJob) -> StreamsResult:
        self.start_streams(job)
        return self.finish_streams()

    def start_streams(self, job: StreamsJob) -> None:
        self._tell({"job": "streams"} | asdict(job))

    def finish_streams(self) -> StreamsResult:
        return StreamsResult(**self._hear())

    def start_calls(self, job: CallsJob) -> None:
        self._tell({"job": "calls"} | asdict(job))

    def finish_calls(self) -> CallsResult:
        return CallsResult(**self._hear())

    def _ask(self, job: dict[str, object]) -> dict[str, list[float]]:
        self._tell(job)
        return self._hear()

    def _tell(self, job: dict[str, object]) -> None:
        if self._process.stdin is None:
            raise BenchError("the client has no standard input")
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def _hear(self):
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise BenchError("the client ended; its last words are above")
        return json.loads(line)

    def close(self) -> None:
        _stop(self._process)
