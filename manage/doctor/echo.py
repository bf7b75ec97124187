"""An upstream for trials that keeps each request as it was received, and sends a given response.

A stream is sent event by event, each only once the client has the one before. So a proxy that holds
events back is detected, however slow the machine is."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

PATIENCE_S = 5.0

type Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as ``EchoUpstream`` received it."""

    method: str
    target: str
    headers: Headers
    body: bytes


@dataclass(slots=True, kw_only=True)
class Response:
    """A response for ``EchoUpstream`` to send: a body of a known length, or a stream of events.

    ``sent_s`` has the time at which each event was sent (monotonic). ``was_held`` is set if the client
    did not get an event within ``patience_s``."""

    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    events: Sequence[bytes] = ()
    patience_s: float = PATIENCE_S
    sent_s: list[float] = field(default_factory=list)
    was_held: bool = False
    _arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def note_arrival(self) -> None:
        """Note that the client has received the latest event."""
        self._arrived.release()

    def wait_for_arrival(self) -> None:
        """Wait until the client has the latest event; return at once if an event was held back before."""
        if not self.was_held and not self._arrived.acquire(timeout=self.patience_s):
            self.was_held = True


class EchoUpstream:
    """The upstream for trials, on a loopback port. It serves one request at a time."""

    def __init__(self) -> None:
        """Listen on a free port. Raises OSError."""
        self.response = Response()
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"


def _make_handler(upstream: EchoUpstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            upstream.seen.append(
                Seen(
                    method=self.command,
                    target=self.path,
                    headers=self.headers.items(),
                    body=body,
                )
            )
            with suppress(OSError):  # the proxy has gone
                _respond(self, upstream.response)

        def log_message(self, *_: object) -> None:
            """Print nothing, unlike the base class."""

    return Handler


def _respond(handler: BaseHTTPRequestHandler, response: Response) -> None:
    framing = (
        ("transfer-encoding", "chunked")
        if response.events
        else ("content-length", str(len(response.body)))
    )
    lines = [f"HTTP/1.1 {response.status} OK"]
    lines += [f"{name}: {value}" for name, value in (*response.headers, framing)]
    handler.wfile.write("\r\n".join((*lines, "", "")).encode("latin-1") + response.body)
    for event in response.events:
        response.sent_s.append(time.monotonic())
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        handler.wfile.flush()
        response.wait_for_arrival()
    if response.events:
        handler.wfile.write(b"0\r\n\r\n")
