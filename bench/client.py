"""``python -m bench.client``: the load, in its own process so that its CPU time is counted apart.

Reads one JSON job per line from standard input and prints one JSON result per line. There are two
kinds of jobs: ``calls`` keeps some keep-alive connections busy, ``streams`` opens live streams in
parallel and notes how late every event is. The bytes are made by hand, since an HTTP library would
cost more than the proxies that are compared."""

import asyncio
import json
import re
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.traffic import Kind, make_body

JOB_LIMIT_S = 300.0
HOST = "127.0.0.1"
LAST_CHUNK = b"0\r\n\r\n"
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
WRITTEN_AT = re.compile(rb'"t":(\d+\.\d+)}\n\n')
API_KEY = "sk-ant-api03-bench-0000000000000000000000000000"
HEADERS = (
    "host: 127.0.0.1\r\n"
    "accept: application/json\r\n"
    "accept-encoding: identity\r\n"
    "content-type: application/json\r\n"
    "user-agent: Anthropic/Python 0.75.0\r\n"
    "x-stainless-lang: python\r\n"
    "x-stainless-package-version: 0.75.0\r\n"
    "x-stainless-os: Linux\r\n"
    "x-stainless-arch: x64\r\n"
    "x-stainless-runtime: CPython\r\n"
    "x-stainless-runtime-version: 3.13.0\r\n"
    "x-stainless-retry-count: 0\r\n"
    "x-stainless-timeout: 600\r\n"
    f"x-api-key: {API_KEY}\r\n"
    "anthropic-version: 2023-06-01\r\n"
)


class LoadError(Exception):
    """The load failed, so the measurements mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsJob:
    """The job to make the calls ``first`` to ``first + calls``.

    They are spread over ``paths`` in runs of ``run_length``, so that no rate limit is reached.
    ``rate`` is in calls a second, None for the maximum. ``headers`` are additional header lines."""

    port: int
    paths: Sequence[str]
    run_length: int
    kind: Kind
    first: int
    calls: int
    connections: int
    rate: float | None = None
    headers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsResult:
    seconds: float
    latencies_ms: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsJob:
    """The job to open one connection for each of ``paths``, with ``repeats`` streams one after the other.

    Connections stay open and are opened ``stagger_s`` apart. ``sessions`` are session ids for the
    usage log; ``headers`` are additional header lines."""

    port: int
    paths: Sequence[str]
    stagger_s: float = 0.0
    repeats: int = 1
    sessions: Sequence[str] = ()
    headers: str = ""


@dataclass(slots=True, kw_only=True)
class StreamsResult:
    """Times in milliseconds: from the request to the first event, and the delay of each event."""

    first_event_ms: list[float] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    cut: int = 0


def make_request(path: str, body: bytes, extra: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\n{HEADERS}{extra}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Caller(asyncio.Protocol):
    """A keep-alive connection that sends a request, waits for the response, and sends the next."""

    def __init__(self, job: CallsJob, indices: Iterator[int], latencies_ms: list[float]) -> None:
        self._job, self._indices, self._latencies_ms = job, indices, latencies_ms
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._sent_s = self._due_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._due_s = time.monotonic()
        self._send()

    def _send(self) -> None:
        index = next(self._indices, None)
        if index is None or self._transport is None:
            if self._transport is not None:
                self._transport.close()
            _settle(self.done)
            return
        job = self._job
        path = job.paths[index // job.run_length % len(job.paths)]
        request = make_request(path, make_body(job.kind, index), job.headers)
        self._sent_s = time.monotonic()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not _is_whole(self._buffer):
            return
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            _settle(self.done, LoadError(f"a response was {bytes(self._buffer[:300])!r}"))
            return
        self._buffer.clear()
        now_s = time.monotonic()
        self._latencies_ms.append((now_s - self._sent_s) * 1000)
        if self._job.rate is None:
            self._send()
            return
        self._due_s += self._job.connections / self._job.rate
        self._loop.call_later(max(0.0, self._due_s - now_s), self._send)

    def connection_lost(self, _error: Exception | None) -> None:
        _settle(self.done, LoadError("a connection was closed"))


class Listener(asyncio.Protocol):
    """A connection with live streams, one after the other."""

    def __init__(self, request: bytes, repeats: int, result: StreamsResult) -> None:
        self._request, self._left, self._result = request, repeats, result
        self._buffer = bytearray()
        self._sent_s = 0.0
        self._has_event = False
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._send(transport)

    def _send(self, transport: asyncio.Transport) -> None:
        self._left -= 1
        self._has_event = False
        self._sent_s = time.monotonic()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        self._buffer += data
        if not self._has_event and b"\ndata: " in self._buffer:
            self._has_event = True
            self._result.first_event_ms.append((now_s - self._sent_s) * 1000)
        end = 0
        for found in WRITTEN_AT.finditer(self._buffer):
            self._result.lags_ms.append((now_s - float(found[1])) * 1000)
            end = found.end()
        del self._buffer[:end]
        if self._has_event and self._buffer.endswith(LAST_CHUNK) and self._transport is not None:
            self._result.ended_s.append(now_s)
            self._buffer.clear()
            if self._left:
                self._send(self._transport)
                return
            _settle(self.done)
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.done.done():
            self._result.cut += 1
            _settle(self.done)


def _settle(future: asyncio.Future[None], error: LoadError | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _is_whole(response: bytearray) -> bool:
    end = response.find(b"\r\n\r\n") + 4
    if end < 4:
        return False
    length = CONTENT_LENGTH.search(response, 0, end)
    if length is None:
        return response.endswith(LAST_CHUNK)
    return len(response) >= end + int(length[1])


async def run_calls(job: CallsJob) -> CallsResult:
    indices = iter(range(job.first, job.first + job.calls))
    latencies_ms: list[float] = []
    loop = asyncio.get_running_loop()
    start_s = time.monotonic()
    callers = [
        (await loop.create_connection(lambda: Caller(job, indices, latencies_ms), HOST, job.port))[
            1
        ]
        for _ in range(job.connections)
    ]
    async with asyncio.timeout(JOB_LIMIT_S):
        await asyncio.gather(*(caller.done for caller in callers))
    return CallsResult(seconds=time.monotonic() - start_s, latencies_ms=latencies_ms)


async def run_streams(job: StreamsJob) -> StreamsResult:
    result = StreamsResult()
    loop = asyncio.get_running_loop()
    sessions = deque(f"x-claude-code-session-id: {session}\r\n" for session in job.sessions)
    start_s = time.monotonic()
    listeners: list[Listener] = []
    for number, path in enumerate(job.paths):
        extra = job.headers + (sessions.popleft() if sessions else "")
        request = make_request(path, make_body("streamed", number), extra)
        listener = Listener(request, job.repeats, result)
        await asyncio.sleep(max(0.0, start_s + number * job.stagger_s - time.monotonic()))
        await loop.create_connection(lambda each=listener: each, HOST, job.port)  # type: ignore[misc]
        listeners.append(listener)
    async with asyncio.timeout(JOB_LIMIT_S):
        await asyncio.gather(*(listener.done for listener in listeners))
    return result


def run_job(job: dict[str, Any]) -> CallsResult | StreamsResult:
    kind = job.pop("job")
    if kind == "calls":
        return asyncio.run(run_calls(CallsJob(**job)))
    return asyncio.run(run_streams(StreamsJob(**job)))


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for line in sys.stdin:
        try:
            result = asdict(run_job(json.loads(line)))
        except (LoadError, OSError) as error:  # asyncio's TimeoutError is one, too
            result = {"error": f"the load failed: {error!r}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
