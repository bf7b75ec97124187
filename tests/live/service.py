"""The real program as a subprocess, the way a user starts it, with a data directory of its own.

`Service` starts `up`, reads the address it prints, waits until `/healthz` is 200, and ends every
process it started whatever the test did. It looks at the results only from outside: the wire, the
`usage_log` view, the folders, the exit code and what was printed.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Literal, Self
from urllib.parse import urlsplit

import psutil

from runtime.settings import Streaming
from store.control.database import ControlDatabase
from store.control.management import Management
from tests import ROOT
from tests.live.noon import find_noon_zone
from tests.rawclient import TIMEOUT_S, Cut, Headers, RawClient, Response, request
from tests.upstream import Upstream, wait_until

type Row = dict[str, Any]
type Child = Literal["proxy", "recorder", "web", "queries", "cluster"]

START_S = 120.0
STOP_S = 120.0
API_KEY = "sk-ant-dummy-0123456789abcdefghijklmnopqrstuvwxyz"
"""The upstream credential of these tests. It must be found nowhere but at the upstream."""
REQUEST_HEADERS: Headers = (
    ("Host", "taximeter.test"),
    ("Content-Type", "application/json"),
    ("anthropic-version", "2023-06-01"),
    ("x-api-key", API_KEY),
)

_ADDRESS = re.compile(
    r'(?:export ANTHROPIC_BASE_URL=|"endpoint_url": "|listens at )(http://[\w.:]+)(?:/proxy/default\b|,)'
)
_MODULES: Mapping[Child, str] = {
    "proxy": "addon",
    "recorder": "recorder",
    "web": "manage.server",
    "queries": "dashboard.queries",
    "cluster": "extensions.cluster",
}


class Output:
    """The output of a process, collected by a thread so that no pipe fills up."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: list[str] = []
        self._stream = stream
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        for line in self._stream:
            self._lines.append(line)

    @property
    def text(self) -> str:
        return "".join(self._lines)

    def close(self) -> None:
        self._thread.join(TIMEOUT_S)
        self._stream.close()


class Service:
    """One running `taximeter up`. Settings are given as environment variables without the prefix:
    `Service(folder, upstream_url, STREAMING="buffered")`."""

    program: tuple[str, ...] = (sys.executable, "-m", "manage.cli.main")
    options: tuple[str, ...] = ()
    started_in = ROOT

    def __init__(self, folder: Path, upstream_url: str, **settings: str) -> None:
        self.data_dir = folder / "data"
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),  # also where another checkout is installed
            "LANG": "C.UTF-8",
            "TAXIMETER_LISTEN": "127.0.0.1:0",
            "TAXIMETER_DATA_DIR": str(self.data_dir),
            "TAXIMETER_UPSTREAM_URL": upstream_url,
            "TAXIMETER_WORKERS": "1",  # a test that is about several says so
        } | {_setting_name(name): value for name, value in settings.items()}
        self.address = ("127.0.0.1", 0)
        self._process: subprocess.Popen[str] | None = None
        self._outputs: list[Output] = []
        self._started_with: dict[str, str] = {}

    # --- life ---

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it, again if it was started before, and wait until it is healthy."""
        self._started_with = dict(self.environment)
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [*self.program, "up", *self.options],
            cwd=self.started_in,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdout
        assert self._process.stderr
        self._outputs += [Output(self._process.stdout), Output(self._process.stderr)]
        self.wait_until(
            lambda: self.has_ended or _ADDRESS.search(self.printed),
            "the address line on standard output",
            patience_s=START_S,
        )
        found = _ADDRESS.search(self.printed)
        if found is None:
            raise AssertionError(f"`up` ended with {self.wait()}\n{self.output}")
        parts = urlsplit(found[1])
        assert parts.hostname
        assert parts.port
        self.address = (parts.hostname, parts.port)
        self.wait_healthy()

    def ensure_started(self) -> None:
        """Start it again if a test has ended it, or has changed its settings."""
        if not self.has_ended and self._started_with != self.environment:
            self.terminate()
        if self.has_ended:
            self.start()

    def wait_healthy(self) -> None:
        self.wait_until(
            lambda: self.has_ended or self._is_up(),
            "/healthz answering 200",
            patience_s=START_S,
        )
        if self.has_ended:
            raise AssertionError(f"`up` ended with {self.wait()}\n{self.output}")

    def _is_up(self) -> bool:
        """Healthy, or with no other complaint than a disk that a test says is full."""
        try:
            answer = self.get("/healthz")
        except (OSError, Cut):
            return False
        if answer.status == 200:
            return True
        reasons = json.loads(answer.body).get("reasons", [])
        return bool(reasons) and all("below the reserve" in reason for reason in reasons)

    def terminate(self) -> int:
        """SIGTERM to `up`; waits for its end and gives the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code of `up`, when it has ended."""
        assert self._process
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"`up` did not end\n{self.output}") from error
        for output in self._outputs:
            output.close()
        return code

    def kill(self) -> None:
        """Kill `up` alone with SIGKILL, without waiting for its children, which go by themselves."""
        assert self._process
        self._process.kill()
        self._process.wait(STOP_S)

    def close(self) -> None:
        """End what is left of it at once; a test that cares how it ends calls `terminate`."""
        if self._process is None:
            return
        children = self._children()
        self._process.kill()
        self._process.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self.wait_until(lambda: all(map(is_over, children)), "the end of its children")
        for output in self._outputs:
            output.close()
        self._process = None

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    # --- its processes ---

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def pids(self) -> dict[Child, int]:
        """The children that are there now, by what they do."""
        found: dict[Child, int] = {}
        for process in self._children(recursive=False):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                command = process.cmdline()
                found |= {
                    name: process.pid
                    for name, module in _MODULES.items()
                    if _runs_module(command, module)
                }
        return found

    def worker_pids(self) -> set[int]:
        """The processes of the proxy that are there now, of all its workers."""
        found: set[int] = set()
        for process in self._children(recursive=False):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if _runs_module(process.cmdline(), _MODULES["proxy"]):
                    found.add(process.pid)
        return found

    def kill9(self, *names: Child) -> dict[Child, int]:
        """Kill these children at once, and give the pids they had."""
        pids = self.pids()
        for name in names:
            os.kill(pids[name], signal.SIGKILL)
        return {name: pids[name] for name in names}

    def wait_restarted(self, killed: Mapping[Child, int]) -> None:
        """Wait until others stand where the killed ones were, and all are healthy."""
        self.wait_until(
            lambda: all(self.pids().get(name, pid) != pid for name, pid in killed.items()),
            f"a restart of {', '.join(killed)}",
            patience_s=START_S,
        )
        self.wait_healthy()

    def query_pids(self) -> list[int]:
        """The query processes that are there now, those of the pool."""
        with suppress(psutil.NoSuchProcess):
            pool = psutil.Process(self.pids()["queries"])
            return [process.pid for process in pool.children()]
        return []

    def _children(self, *, recursive: bool = True) -> list[psutil.Process]:
        assert self._process
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=recursive)
        return []

    # --- talking to it ---

    def connect(self, *, timeout_s: float = TIMEOUT_S) -> RawClient:
        return RawClient(self.address, timeout_s=timeout_s)

    def send(self, data: bytes) -> Response:
        """One request on a connection of its own, and its whole response."""
        with self.connect() as client:
            return client.exchange(data)

    def get(self, path: str, headers: Headers = ()) -> Response:
        return self.send(request("GET", path, [("Host", self.host), *headers]))

    def get_page(self, path: str, headers: Headers = ()) -> Response:
        """Request a page until there is a process for it: one that is too slow to begin is replaced, and its
        client is told to try again."""
        found: list[Response] = []

        def is_made() -> bool:
            found[:] = [self.get(path, headers)]
            return found[0].status != 503

        self.wait_until(is_made, f"the page {path}")
        return found[0]

    def health(self) -> int | None:
        """The status of /healthz, None while nobody answers."""
        try:
            return self.get("/healthz").status
        except (OSError, Cut):
            return None

    def refuses(self) -> bool:
        """Return whether nobody listens at its address any more."""
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return True
        return False

    @property
    def host(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    # --- what it recorded ---

    def rows(self, slug: str = "%") -> list[Row]:
        """The entries of the only organisation, in order of insertion; of one endpoint if asked."""
        paths = list(self.data_dir.glob("traces/*/traces.db"))
        assert len(paths) <= 1 or slug != "%", f"more than one organisation: {paths}"
        return [row for path in paths for row in _read_rows(path, slug)]

    def wait_for_rows(self, count: int, slug: str = "%") -> list[Row]:
        """Wait until there are at least so many entries; the caller asserts that there are no more."""
        found: list[Row] = []

        def enough() -> bool:
            found[:] = self.rows(slug)
            return len(found) >= count

        self.wait_until(enough, lambda: f"{count} entries; there are {len(found)}")
        return found

    def wait_spool_empty(self) -> None:
        """Wait until the recorder has nothing more to do: every exchange that ended is an entry."""
        self.wait_until(
            # Twice: a listing can miss a file that is renamed under it.
            lambda: not self.spool_files() and not self.spool_files(),
            lambda: f"an empty spool, not {self.spool_files()}",
        )

    def settled_rows(self, slug: str = "%") -> list[Row]:
        """The entries when all that happened so far has become one."""
        self.wait_spool_empty()
        return self.rows(slug)

    def spool_files(self) -> list[str]:
        spool = self.data_dir / "spool"
        return sorted(
            path.name
            for path in spool.rglob("*")
            if path.suffix in (".open", ".done") and "unreadable" not in path.parts
        )

    def unreadable_files(self) -> list[str]:
        return sorted(path.name for path in self.data_dir.glob("spool/unreadable/*"))

    @property
    def output(self) -> str:
        """Everything that was printed, of every start."""
        return "\n".join(output.text for output in self._outputs)

    @property
    def printed(self) -> str:
        """Return what the last start has printed on standard output."""
        return self._outputs[-2].text

    @property
    def errors(self) -> str:
        """Return what the last start has printed on standard error."""
        return self._outputs[-1].text

    def wait_until(
        self,
        condition: Callable[[], object],
        what: str | Callable[[], str],
        *,
        patience_s: float = TIMEOUT_S,
    ) -> None:
        """Wait as the plain function does; a failure also shows what the program has printed."""
        try:
            wait_until(condition, "the condition", patience_s=patience_s)
        except TimeoutError as error:
            text = what if isinstance(what, str) else what()
            raise TimeoutError(
                f"waited {patience_s:g} s in vain for {text}\n{self.output}"
            ) from error

    # --- its endpoints ---

    def create_key(self, name: str) -> str:
        """Return a new service API key of the local user."""
        with ControlDatabase(self.data_dir / "control.db") as control:
            management = Management(control, self.data_dir)
            return management.create_key(management.local_caller(), name)[1]

    def create_endpoint(
        self,
        slug: str,
        streaming: Streaming | None = None,
        *,
        metadata_only: bool = False,
        upstream: str | None = None,
    ) -> None:
        """Create an endpoint. ``upstream`` is the name of another upstream than that of the service."""
        with ControlDatabase(self.data_dir / "control.db") as control:
            management = Management(
                control, self.data_dir, upstreams=(upstream,) if upstream else ()
            )
            management.create_endpoint(
                management.local_caller(),
                slug,
                slug,
                streaming,
                metadata_only=metadata_only,
                upstream=upstream,
            )

    def delete_endpoint(self, slug: str) -> None:
        with ControlDatabase(self.data_dir / "control.db") as control:
            management = Management(control, self.data_dir)
            management.delete_endpoint(management.local_caller(), slug)

    def set_budget(self, slug: str, *, limit_usd: float) -> str:
        """Set a budget for the day that refuses calls, and return the id of its endpoint. Days are those of a
        zone in which it is about noon, so that none ends while a test is under way."""
        with ControlDatabase(self.data_dir / "control.db") as control:
            management = Management(control, self.data_dir)
            caller = management.local_caller()
            management.budgets.set_time_zone(caller, find_noon_zone())
            made = management.budgets.put(
                caller, slug, period="day", limit_usd=limit_usd, action="refuse"
            )
            return made.budget.subject_id


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A proxy endpoint that one test has for itself, and the upstream behind it."""

    service: Service
    upstream: Upstream
    slug: str

    def target(self, path: str = "/v1/messages") -> str:
        return f"/proxy/{self.slug}{path}"

    def message(
        self,
        body: bytes = b"{}",
        headers: Headers = REQUEST_HEADERS,
        *,
        path: str = "/v1/messages",
    ) -> bytes:
        """The bytes of a message request."""
        return request("POST", self.target(path), headers, body)

    def send(self, data: bytes | None = None) -> Response:
        """One request on a connection of its own; a plain message unless told otherwise."""
        return self.service.send(self.message() if data is None else data)

    def connect(self) -> RawClient:
        return self.service.connect()

    def rows(self) -> list[Row]:
        """The entries of this endpoint, when all that happened has become one."""
        return self.service.settled_rows(self.slug)

    def row(self) -> Row:
        """The only entry of this endpoint."""
        found = self.rows()
        assert len(found) == 1, f"{len(found)} entries: {found}"
        return found[0]


def is_over(process: psutil.Process) -> bool:
    """Return whether it has ended, also while nobody has fetched its exit code."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def body_bytes(stored: str | bytes | None) -> bytes | None:
    """A body column as bytes: text where it is valid UTF-8, a BLOB where it is not."""
    return stored.encode() if isinstance(stored, str) else stored


def _read_rows(path: Path, slug: str) -> list[Row]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        database.row_factory = sqlite3.Row
        try:
            found = database.execute(
                "select * from usage_log where slug like ? order by id", (slug,)
            ).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
    return [dict(row) for row in found]


def _setting_name(name: str) -> str:
    return name if name.isupper() and name.startswith("SSL_") else f"TAXIMETER_{name}"


def _runs_module(command: list[str], module: str) -> bool:
    return ("-m", module) in pairwise(command)
