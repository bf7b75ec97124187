"""A pool of real query processes, and requests to it through the proxy of the web process."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from starlette.types import Message

from dashboard.queries.page_request import PageRequest
from dashboard.queries.process import MAX_GROWN_BYTES
from dashboard.queries.protocol import SOCKET_SUFFIX
from dashboard.queries.query import Query
from dashboard.queries.query_proxy import QueryProxy
from dashboard.slow_readers import PacedResponse, UnreadResponses
from runtime import parent_watch
from store.control.sessions import Visitor
from tests import ROOT
from tests.live.service import is_over
from tests.upstream import wait_until

COUNT = 3
START_S = 60.0
# A pool whose processes know no Datasette, no pages and so no organisation: it starts in a fifth of the time.
WITHOUT_DATASETTE = """
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

def put(name, **contents):
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(contents)

put("dashboard.queries.page_renderer", PageRenderer=lambda _: None, load_pages=lambda: None)
put("dashboard.tables.datasette_patches", report_changes=lambda: None)
put("dashboard.tables.errors", RequestState=None)
put("dashboard.tables.instances", Instances=lambda *_: SimpleNamespace(use=lambda _id: nullcontext()))
put("dashboard.tables.trace_browser", TraceBrowser=SimpleNamespace(load_templates=lambda: None))
"""
PATIENT_S = 60.0  # of those who are to be answered, however busy the machine is
# A pool whose processes stop no query because the machine is slow, unless its address has a time limit.
PATIENT = f"""
from dashboard.queries import process
from dashboard.tables.trace_browser import SETTINGS

process.ALARM_S = {round(PATIENT_S)}
SETTINGS.update(sql_time_limit_ms={round(1000 * PATIENT_S)}, facet_time_limit_ms={round(1000 * PATIENT_S)})
"""


@dataclass(slots=True, kw_only=True)
class Pool:
    folder: Path
    traces: Path
    process: psutil.Process
    parent_fd: int
    start: Callable[[], subprocess.Popen[bytes]]

    def pids(self) -> list[int]:
        """Return the processes that can be asked now."""
        return sorted(int(path.stem) for path in self.folder.glob(f"*{SOCKET_SUFFIX}"))

    def children(self) -> list[psutil.Process]:
        return self.process.children()

    def memory(self) -> list[Any]:
        """Return what psutil says of the memory of each process; one may be ending."""
        found = []
        for child in self.children():
            with suppress(psutil.NoSuchProcess):
                found.append(child.memory_info())
        return found

    def close_parent_pipe(self) -> None:
        if self.parent_fd >= 0:
            os.close(self.parent_fd)
            self.parent_fd = -1

    def restart(self) -> None:
        """Start another after this one has ended, with the same folders."""
        self.process = psutil.Process(self.start().pid)

    def wait_ready(self) -> None:
        """Wait until all processes can be asked and none is about to end: one that was killed is still
        listed for a moment, and so is one that has grown."""
        wait_until(
            lambda: len(self.pids()) == COUNT and set(self.pids()) == self._list_lasting(),
            f"{COUNT} query processes of {self.process}, {self.children()}",
            patience_s=START_S,
        )

    def _list_lasting(self) -> set[int]:
        children = [child for child in self.children() if not is_over(child)]
        return {child.pid for child in children if peak_bytes(child.pid) <= MAX_GROWN_BYTES}


def peak_bytes(pid: int) -> int:
    """Return the most memory in bytes that a process has ever used, as it sees it itself; 0 of one that has
    ended, or where the kernel does not say so."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


@contextmanager
def running_pool(traces: Path, prelude: str = "") -> Iterator[Pool]:
    """``prelude`` is code that the pool runs first."""
    traces.mkdir(parents=True, exist_ok=True)
    read_fd, write_fd = os.pipe()
    with tempfile.TemporaryDirectory(prefix="taximeter-", ignore_cleanup_errors=True) as folder:
        options = [f"--traces={traces}", f"--sockets={folder}", f"--count={COUNT}"]
        program = f"{prelude}\nfrom dashboard.queries.__main__ import main\nmain()"
        code = ["-c", program] if prelude else ["-m", "dashboard.queries"]
        started: list[subprocess.Popen[bytes]] = []

        def start() -> subprocess.Popen[bytes]:
            process = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, "-P", *code, *options],
                env={
                    "PYTHONPATH": str(ROOT),
                    "MALLOC_ARENA_MAX": "1",
                    parent_watch.VARIABLE: str(read_fd),
                },
                pass_fds=[read_fd],
            )
            started.append(process)
            return process

        pool = Pool(
            folder=Path(folder),
            traces=traces,
            process=psutil.Process(start().pid),
            parent_fd=write_fd,
            start=start,
        )
        try:
            pool.wait_ready()
            yield pool
        finally:
            for process in started:
                process.kill()
                process.wait()
            os.close(read_fd)
            pool.close_parent_pipe()


@dataclass(slots=True)
class Client:
    """A client of the query proxy. It reads on only while it may, and can leave."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    has_left: asyncio.Event = field(default_factory=asyncio.Event)
    on_part: Callable[[bytes], None] = lambda _part: None
    _response: PacedResponse = field(init=False)

    async def receive(self) -> Message:
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    def __post_init__(self) -> None:
        self._response = PacedResponse(self._take, UnreadResponses())

    async def send(self, message: Message) -> None:
        await self._response.send(message)

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        await self.reads.wait()
        self.body += message["body"]
        self.on_part(message["body"])
        self.is_whole = not message.get("more_body", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedQuery(Query):
    """A query with a deadline of its own."""

    wait_s: float

    @property
    def deadline_s(self) -> float:
        return self.wait_s


async def may_read() -> None:
    """Let every caller read: a check that passes."""


def make_query(
    organization_id: str,
    target: str,
    check=may_read,
    *,
    method: str = "GET",
    deadline_s: float = PATIENT_S,
    is_for_program: bool = True,
) -> Query:
    path, _, arguments = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": arguments.encode(),
        "headers": [(b"host", b"meter.example")],
    }
    ann = Visitor(
        user_id="user_1",
        organization_id=organization_id,
        role="owner",
        email="ann@example.org",
        organization_name="Ann Ltd",
    )
    page = PageRequest(
        name="tables",
        caller=ann,
        base_url="http://meter.example",
        vendor="anthropic",
        is_for_program=is_for_program,
    )
    return TimedQuery(scope=scope, page=page, check=check, wait_s=deadline_s)


async def ask(proxy: QueryProxy, organization_id: str, target: str, **more) -> Client:
    """Send a request, and read all of the response."""
    client = Client()
    client.reads.set()
    await proxy.forward(make_query(organization_id, target, **more), client.receive, client.send)
    return client
