"""An exchange: one request that is being forwarded, with its response."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from addon import held_response
from addon.capture import Capture
from addon.headers import Index
from addon.held_response import HeldResponse
from runtime import clock
from store.control.database import ProxyEndpoint
from store.spool.format import CALLS, Ending, Record, TransportOutcome

LEAST_UPLOAD_BYTES_PER_S = 64 * 1024


class Phase(Enum):
    """Names what an exchange waits for. The values are the names of the timeouts."""

    REQUEST = "request"
    CONNECT = "connect"
    FIRST_BYTE = "first_byte"
    IDLE = "idle"


@dataclass(slots=True)
class Exchange:
    """Knows where an exchange stands and how long it took.

    Times are of the monotonic clock, in seconds. ``waiting_since_s`` is when the phase began or
    the last byte came. ``upload_since_s`` is since when the client is behind: it moves on by the
    time that what came may have taken, so that a byte now and then does not keep an upload.
    ``own_s`` adds up the time spent in our code while a byte could have moved.
    """

    endpoint: ProxyEndpoint | None = None  # None: on its way to the web process
    client_address: str = ""  # of IPv6 its /64 network
    origin: bytes | None = None  # the listed origin of the page that made the request
    target: str = ""  # below the slug, with the query
    client_headers: Index = field(default_factory=dict)  # as they came, until they are captured
    run_id: str | None = None
    record: Record | None = None  # what is made of it; None: nothing
    is_buffered: bool = False
    is_http_1_0: bool = False  # no chunks then: the end of the connection ends the response
    close_after: bool = False
    arrived_at: datetime = field(default_factory=clock.now)
    capture: Capture | None = None
    phase: Phase = Phase.REQUEST
    waiting_since_s: float = field(default_factory=time.monotonic)
    upload_since_s: float = field(default_factory=time.monotonic)
    held_bytes: int = 0  # of the request body
    request_is_whole: bool = False
    request_done_s: float = field(default_factory=time.monotonic)
    last_byte_s: float | None = None
    own_s: float = 0.0
    response_started: bool = False
    is_endless: bool = False  # events for an open page, which end when that closes
    response_bytes: int = 0
    timed_out: Phase | None = None
    held: HeldResponse = field(default_factory=HeldResponse)
    # Whether there is memory for so much of the response.
    may_hold: Callable[[int], bool] = lambda _held_bytes: True

    def enter(self, phase: Phase) -> None:
        """Note what the exchange waits for now."""
        self.phase = phase
        self.waiting_since_s = self.upload_since_s = time.monotonic()

    @property
    def is_report(self) -> bool:
        """Return whether only what the response reports is of interest."""
        return self.record is not None and self.record not in CALLS

    @property
    def waits_for_client(self) -> bool:
        """Return whether the client has to send more of its request before anything else can happen."""
        return not self.request_is_whole and self.phase in (Phase.REQUEST, Phase.FIRST_BYTE)

    def elapsed_ms(self, at_s: float) -> float:
        """Return the milliseconds between the end of the request and a time."""
        return (at_s - self.request_done_s) * 1000

    def pass_request_chunk(self, chunk: bytes) -> bytes:
        """Return a chunk of the request as it is, and note that the upload moves."""
        self.note_upload(len(chunk))
        return chunk

    def note_upload(self, received_bytes: int) -> None:
        """Note that ``received_bytes`` more of the request body have come."""
        now_s = self.waiting_since_s = time.monotonic()
        paid_s = received_bytes / LEAST_UPLOAD_BYTES_PER_S
        self.upload_since_s = min(now_s, self.upload_since_s + paid_s)

    def note_held(self, held_bytes: int) -> None:
        """Note how much of the request body is held now."""
        self.note_upload(held_bytes - self.held_bytes)
        self.held_bytes = held_bytes

    def take_chunk(self, chunk: bytes) -> list[bytes]:
        """Keep one chunk of the response and return what goes on to the client now.

        ``b""`` is the end. An empty list swallows a chunk; ``b""`` in mid-stream would end it."""
        arrived_s = self.waiting_since_s = self.last_byte_s = time.monotonic()
        if not chunk:
            return self.held.take()
        self.response_bytes += len(chunk)
        if self.capture is not None:
            self.capture.write_chunk(chunk, self.elapsed_ms(arrived_s))
        passed = self._hold(chunk) if self.is_buffered else [chunk]
        self.own_s += time.monotonic() - arrived_s
        return passed

    def _hold(self, chunk: bytes) -> list[bytes]:
        """Hold a chunk and return nothing, or all that is held once there is no room for more: the
        rest of the response is passed on as it comes."""
        self.held.add(chunk)
        if self.held.size <= held_response.MAX_BYTES and self.may_hold(self.held.size):
            return []
        self.is_buffered = False
        self.may_hold(0)
        return self.held.take()

    def finish(self, outcome: TransportOutcome, error_type: str | None = None) -> None:
        """Hand what was captured to the recorder. Only the first call counts."""
        capture, self.capture = self.capture, None
        if capture is None:
            return
        now_s = time.monotonic()
        last_byte_s = now_s if self.last_byte_s is None else self.last_byte_s
        ending = Ending(
            outcome=outcome,
            error_type=error_type,
            duration_ms=self.elapsed_ms(last_byte_s),
            proxy_overhead_ms=self.own_s * 1000,
            response_bytes=self.response_bytes,
        )
        capture.finish(ending, self.elapsed_ms(now_s))

    def discard(self) -> None:
        """Forget what was captured: the upstream was never sent anything."""
        capture, self.capture = self.capture, None
        if capture is not None:
            capture.discard()
