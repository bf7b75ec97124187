"""A scripted upstream on loopback: it answers exactly what a test tells it to, byte by byte.

It is a raw HTTP/1.1 server in a thread of its own. Every request is kept as it was on the wire, and
a *script* says what happens then: bytes are written as they are, a `Gate` waits until the test opens
it (so that no test waits by the clock), an `Action` reads, closes, resets or stalls. A script that is
`early` begins before the request's body has been read.

    with Upstream() as upstream:
        upstream.enqueue(answer(200, b"{}"))
        ...
        assert upstream.requests[0].body == b"..."
"""

import asyncio
import enum
import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

type Headers = Sequence[tuple[str, str]]
type Framing = Literal["none", "length", "chunked", "close"]

PATIENCE_S = 120.0
"""The seconds that a test waits for a condition before it fails; never how long something takes."""

_PEEK_S, _LONGEST_PEEK_S = 0.005, 0.1
_LINE_LIMIT = 1 << 20
_REASONS = {200: "OK", 100: "Continue", 103: "Early Hints", 404: "Not Found", 529: "Overloaded"}


def wait_until(
    condition: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S
) -> None:
    """Look until the condition holds, for at most half of the time, and more seldom the longer it takes: what
    is waited for takes the processor, too. Raises TimeoutError naming what did not come to pass."""
    never = threading.Event()
    began = looked = time.monotonic()
    while not condition():
        now = time.monotonic()
        if now > began + patience_s:
            raise TimeoutError(f"waited {patience_s:g} s in vain: {what}")
        seldom_s = min((now - began) / 20, _LONGEST_PEEK_S)
        never.wait(max(_PEEK_S, now - looked, seldom_s))
        looked = time.monotonic()


class Gate:
    """A point of a script where the upstream waits until the test says go on."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        with self._lock:
            self._opened.set()
            for loop, event in self._waiting:
                with suppress(RuntimeError):  # that upstream is closed already
                    loop.call_soon_threadsafe(event.set)

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def wait_reached(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until the upstream stands here, which means that it has sent all that comes before."""
        if not self._reached.wait(patience_s):
            raise TimeoutError("the upstream never came to this gate")

    async def passed(self) -> None:
        event = asyncio.Event()
        with self._lock:
            if self._opened.is_set():
                event.set()
            self._waiting.append((asyncio.get_running_loop(), event))
        self._reached.set()
        await event.wait()


class Action(enum.Enum):
    READ_BODY = enum.auto()  # read the request to its end; only an early script needs to say so
    CLOSE = enum.auto()  # end the connection in order
    RESET = enum.auto()  # end it with a TCP reset
    STALL = enum.auto()  # say nothing more until the peer leaves or the upstream is stopped


CLOSE, RESET, STALL, READ_BODY = Action.CLOSE, Action.RESET, Action.STALL, Action.READ_BODY

type Step = bytes | Gate | Action | Callable[[SeenRequest], bytes | Script]
"""A function is called when the script comes to it, and what it returns is written or played."""


@dataclass(frozen=True, slots=True)
class Script:
    """The steps after a request. With `early` it begins as soon as the request's head is there."""

    steps: tuple[Step, ...]
    early: bool = False

    def then(self, *steps: Step) -> "Script":
        return Script((*self.steps, *steps), self.early)

    def preceded_by(self, *steps: Step) -> "Script":
        return Script((*steps, *self.steps), self.early)


# --- building blocks of scripts -----------------------------------------------------------------


def head(status: int, headers: Headers = (), *, reason: str | None = None) -> bytes:
    """The head of a response, exactly these headers in this order."""
    text = reason if reason is not None else _REASONS.get(status, "Status")
    lines = [f"HTTP/1.1 {status} {text}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk(trailers: Headers = ()) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in trailers)
    return b"0\r\n" + lines.encode("latin-1") + b"\r\n"


def answer(
    status: int,
    body: bytes = b"",
    headers: Headers = (("content-type", "application/json"),),
    *,
    framing: Framing = "length",
    interim: Sequence[bytes] = (),
    early: bool = False,
) -> Script:
    """A whole response in one piece. `interim` are 1xx heads that come before it."""
    if framing == "chunked":
        return chunked(status, [body], headers, interim=interim, early=early)
    extra = [("content-length", str(len(body)))] if framing == "length" else []
    steps: list[Step] = [*interim, head(status, [*headers, *extra]) + body]
    if framing == "close":
        steps.append(CLOSE)
    return Script(tuple(steps), early)


def chunked(
    status: int,
    pieces: Sequence[bytes | Gate],
    headers: Headers = (("content-type", "application/json"),),
    *,
    trailers: Headers = (),
    interim: Sequence[bytes] = (),
    early: bool = False,
) -> Script:
    """A chunked response, one chunk (and one write) for each piece; gates may stand between them."""
    steps: list[Step] = [*interim, head(status, [*headers, ("transfer-encoding", "chunked")])]
    steps += [piece if isinstance(piece, Gate) else chunk(piece) for piece in pieces if piece]
    return Script((*steps, last_chunk(trailers)), early)


SSE_HEADERS: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
)


def event(name: str, **fields: object) -> bytes:
    """One SSE event as the Messages API writes it."""
    data = json.dumps({"type": name, **fields}, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def message_events(
    texts: Sequence[str] = ("Hello", " there"),
    *,
    model: str = "claude-sonnet-4-5-20250929",
    input_tokens: int = 11,
    output_tokens: int = 7,
) -> list[bytes]:
    """The events of a plain streamed message, one delta for each text."""
    usage = {"input_tokens": input_tokens, "output_tokens": 1}
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "usage": usage,
    }
    deltas = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        for text in texts
    ]
    return [
        event("message_start", message=message),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *deltas,
        event("content_block_stop", index=0),
        event(
            "message_delta",
            delta={"stop_reason": "end_turn"},
            usage={"output_tokens": output_tokens},
        ),
        event("message_stop"),
    ]


def sse(
    pieces: Sequence[bytes | Gate], headers: Headers = SSE_HEADERS, status: int = 200
) -> Script:
    """A whole stream of events, chunk by chunk."""
    return chunked(status, pieces, headers)


def cut_sse(
    pieces: Sequence[bytes | Gate], end: Action = CLOSE, headers: Headers = SSE_HEADERS
) -> Script:
    """A stream that ends without its last chunk: closed, reset, or stalled for ever."""
    whole = chunked(200, pieces, headers)
    return Script((*whole.steps[:-1], end))


def message_json(
    text: str = "Hello there",
    *,
    model: str = "claude-sonnet-4-5-20250929",
    input_tokens: int = 11,
    output_tokens: int = 7,
) -> bytes:
    """The body of a plain answer that is not streamed."""
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": input_tokens, "output_tokens": output_tokens},
        }
    ).encode()


def error_json(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


# --- what it saw --------------------------------------------------------------------------------


@dataclass(eq=False)
class SeenRequest:
    """A request as it was on the wire. The body grows while it arrives."""

    connection: int
    head: bytes
    method: str
    target: str
    headers: list[tuple[str, str]]
    framing: Framing
    body: bytearray = field(default_factory=bytearray)
    chunk_sizes: list[int] = field(default_factory=list)
    trailers: list[tuple[str, str]] = field(default_factory=list)
    peer_port: int = 0
    whole: threading.Event = field(default_factory=threading.Event)
    """The body was read to its end."""
    answered: threading.Event = field(default_factory=threading.Event)
    """The script was played to its end."""
    abandoned: threading.Event = field(default_factory=threading.Event)
    """The peer closed the connection before the script had ended."""

    def header(self, name: str) -> str | None:
        """The only value of a header, None when it is absent."""
        values = self.header_values(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def header_values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


class _Gone(Exception):
    """The peer has left."""


class _Protocol(asyncio.StreamReaderProtocol):
    """Streams, and an event that tells at once that the peer has left."""

    def __init__(
        self,
        serve: Callable[["_Connection"], object],
        open_transports: set[asyncio.Transport],
    ) -> None:
        self.gone = asyncio.Event()
        self._serve_connection = serve
        self._open_transports = open_transports
        self._stream = asyncio.StreamReader(limit=_LINE_LIMIT)
        super().__init__(self._stream, self._connected)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serve_connection(_Connection(reader, writer, self.gone))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._made = transport
        self._open_transports.add(transport)
        super().connection_made(transport)

    def eof_received(self) -> bool | None:
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self._open_transports.discard(self._made)
        super().connection_lost(exc)


class _Connection:
    """One connection of a peer: reads requests and plays scripts."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.gone = gone

    async def read_request(self, connection: int) -> SeenRequest | None:
        """The head of the next request, None when there is none. Raises ValueError for garbage."""
        try:
            raw = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise ValueError(f"half a request: {error.partial[:200]!r}") from error
            return None
        lines = raw[:-4].decode("latin-1").split("\r\n")
        method, target, _version = lines[0].split(" ", 2)
        headers = [_parse_header(line) for line in lines[1:]]
        return SeenRequest(
            *(connection, raw, method, target, headers, _parse_framing(headers)),
            peer_port=self.writer.get_extra_info("peername")[1],
        )

    async def read_body(self, request: SeenRequest) -> None:
        """Read what is left of the request's body. Raises _Gone when it never comes."""
        if request.whole.is_set():
            return
        try:
            if request.framing == "chunked":
                await self._read_chunked(request)
            else:
                await self._read_exactly(request, int(request.header("content-length") or 0))
        except asyncio.IncompleteReadError as error:
            raise _Gone from error
        request.whole.set()

    async def _read_chunked(self, request: SeenRequest) -> None:
        while size := int((await self._read_line()).split(b";")[0], 16):
            request.chunk_sizes.append(size)
            await self._read_exactly(request, size)
            await self.reader.readexactly(2)
        while line := await self._read_line():
            request.trailers.append(_parse_header(line.decode("latin-1")))

    async def _read_line(self) -> bytes:
        return (await self.reader.readuntil(b"\r\n"))[:-2]

    async def _read_exactly(self, request: SeenRequest, size: int) -> None:
        while size:
            data = await self.reader.read(min(size, 1 << 18))
            if not data:
                raise _Gone
            request.body += data
            size -= len(data)

    async def play(self, script: Script, request: SeenRequest) -> bool:
        """Play a script; False when the connection ends with it."""
        if not script.early:
            await self.read_body(request)
        for step in script.steps:
            if isinstance(step, bytes):
                await self._write(step)
            elif callable(step):
                made = step(request)
                if isinstance(made, bytes):
                    await self._write(made)
                elif not await self.play(made, request):
                    return False
            elif isinstance(step, Gate):
                await self._unless_gone(step.passed())
            elif step is Action.READ_BODY:
                await self.read_body(request)
            elif step is Action.STALL:
                await self._unless_gone(asyncio.Event().wait())
            else:
                await self._end(reset=step is Action.RESET)
                return False
        return True

    async def _write(self, data: bytes) -> None:
        if self.gone.is_set():
            raise _Gone
        self.writer.write(data)
        try:
            await self.writer.drain()
        except OSError as error:
            raise _Gone from error

    async def _unless_gone(self, waiting: "asyncio._CoroutineLike[object]") -> None:
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self.gone.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        if self.gone.is_set():
            raise _Gone

    async def _end(self, *, reset: bool) -> None:
        if reset:
            raw: socket.socket = self.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
            return
        self.writer.close()

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


def _parse_header(line: str) -> tuple[str, str]:
    name, separator, value = line.partition(":")
    if not separator or name != name.strip():
        raise ValueError(f"not a header: {line!r}")
    return name, value.strip()


def _parse_framing(headers: Headers) -> Framing:
    names = {name.lower() for name, _ in headers}
    if {"transfer-encoding", "content-length"} <= names:
        raise ValueError("a request with both transfer-encoding and content-length")
    if "transfer-encoding" in names:
        return "chunked"
    return "length" if "content-length" in names else "none"


# --- the server ---------------------------------------------------------------------------------


class Upstream:
    """The server. Each request is answered by `choose` if that gives a script, else by the next of
    the queue, else by `otherwise`. What should never happen is in `faults`; look at it at the end."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[SeenRequest] = []
        self.connections = 0
        self.faults: list[str] = []
        self.otherwise = answer(200, message_json())
        self.choose: Callable[[SeenRequest], Script | None] | None = None
        self._queue: deque[Script] = deque()
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_transports: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="upstream", daemon=True)
        self._port = ExitStack()
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}"

    @property
    def host(self) -> str:
        return f"{'localhost' if self._tls else '127.0.0.1'}:{self.port}"

    @property
    def is_serving(self) -> bool:
        """Return whether anybody is connected."""
        return bool(self._tasks)

    def enqueue(self, *scripts: Script) -> None:
        self._queue.extend(scripts)

    def reset(self) -> None:
        """Forget what was seen and planned, for the next test on the same server."""
        self.requests.clear()
        self.faults.clear()
        self._queue.clear()
        self.choose = None
        self.otherwise = answer(200, message_json())

    def wait_for_requests(self, count: int) -> list[SeenRequest]:
        """Wait until so many requests have come in whole."""
        wait_until(
            lambda: sum(r.whole.is_set() for r in list(self.requests)) >= count,
            f"{count} requests at the upstream; there are {len(self.requests)}",
        )
        return list(self.requests)

    def __enter__(self) -> Self:
        self.port = self._port.enter_context(kept_port())
        self._thread.start()
        assert self._ready.wait(PATIENCE_S), "the upstream did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(PATIENCE_S)
        self._port.close()
        assert not self._thread.is_alive(), "the upstream did not stop"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    def refuse(self) -> None:
        """Stop listening: new connections are refused, those that are there go on."""
        self._in_loop(self._stop_listening())

    def accept(self) -> None:
        """Listen again, on the same port."""
        self._in_loop(self._start_listening())

    def _in_loop(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _start_listening(self) -> None:
        self._server = await self._loop.create_server(
            lambda: _Protocol(self._accept, self._open_transports),
            "127.0.0.1",
            self.port,
            ssl=self._tls,
            backlog=1024,
        )

    async def _stop_listening(self) -> None:
        """Let what is being accepted begin before the server ends: asyncio would leave its sockets open."""
        if self._server is not None:
            for listening in self._server.sockets:
                self._loop.remove_reader(listening)
            await asyncio.sleep(0)
            self._server.close()
            self._server = None

    async def _main(self) -> None:
        await self._start_listening()
        self._ready.set()
        await self._stopping.wait()
        await self._stop_listening()
        while self._open_transports or len(asyncio.all_tasks()) > 1:
            for (
                transport
            ) in self._open_transports:  # what a peer does not read keeps a closed one open
                transport.abort()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

    def _accept(self, connection: _Connection) -> None:
        self.connections += 1
        task = self._loop.create_task(self._serve(connection, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: _Connection, number: int) -> None:
        try:
            while await self._exchange(connection, number):
                pass
        except (ValueError, asyncio.LimitOverrunError) as error:
            self.faults.append(f"connection {number}: {error}")
        except OSError:
            pass  # a peer that resets is a peer that leaves
        finally:
            await connection.close()

    async def _exchange(self, connection: _Connection, number: int) -> bool:
        request = await connection.read_request(number)
        if request is None:
            return False
        self.requests.append(request)
        try:
            goes_on = await connection.play(self._script_for(request), request)
            request.answered.set()
            if goes_on:
                await connection.read_body(request)
        except (_Gone, OSError):
            request.abandoned.set()
            return False
        return goes_on

    def _script_for(self, request: SeenRequest) -> Script:
        chosen = self.choose(request) if self.choose else None
        if chosen is not None:
            return chosen
        return self._queue.popleft() if self._queue else self.otherwise


@contextmanager
def kept_port() -> Iterator[int]:
    """A port of the loopback address that nobody else is given for as long as the block runs.

    Connections to it are refused until somebody listens there by its number, with SO_REUSEADDR, as
    servers do. A port that was merely free a moment ago may be that of any connection by then.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        port: int = keeper.getsockname()[1]
        yield port


@contextmanager
def refusing_address() -> Iterator[str]:
    """An address that refuses connections for as long as the block runs."""
    with kept_port() as port:
        yield f"http://127.0.0.1:{port}"
