"""An exchange: one forwarded request with its response."""

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
    """The phases of an exchange, by what it waits for. The values are the names of the timeouts."""

    REQUEST = "request"
    CONNECT = "connect"
    FIRST_BYTE = "first_byte"
    IDLE = "idle"


@dataclass(slots=True)
class Exchange:
    """The state and the timing of an exchange.

    Times are in seconds of the monotonic clock. ``waiting_since_s`` is the time at which the phase
    began or the last byte arrived. ``upload_since_s`` is the time since which the client is too slow:
    each byte received moves it on only by the time that the byte may take, so that single bytes do not
    keep an upload alive. ``own_s`` is the time spent in our code while a byte could have been passed
    on."""

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
        """Begin a phase of the exchange."""
        self.phase = phase
        self.waiting_since_s = self.upload_since_s = time.monotonic()

    @property
    def is_report(self) -> bool:
        """Return whether the exchange is recorded only for what its response reports, not as a call."""
        return self.record is not None and self.record not in CALLS

    @property
    def waits_for_client(self) -> bool:
        """Return whether the client must send more of its request before anything else can happen."""
        return not self.request_is_whole and self.phase in (Phase.REQUEST, Phase.FIRST_BYTE)

    def elapsed_ms(self, at_s: float) -> float:
        """Return the milliseconds from the end of the request to ``at_s``."""
        return (at_s - self.request_done_s) * 1000

    def pass_request_chunk(self, chunk: bytes) -> bytes:
        """Return a chunk of the request unchanged, and count it as progress of the upload."""
        self.note_upload(len(chunk))
        return chunk

    def note_upload(self, received_bytes: int) -> None:
        """Count ``received_bytes`` more of the request body as progress of the upload."""
        now_s = self.waiting_since_s = time.monotonic()
        paid_s = received_bytes / LEAST_UPLOAD_BYTES_PER_S
        self.upload_since_s = min(now_s, self.upload_since_s + paid_s)

    def note_held(self, held_bytes: int) -> None:
        """Set the number of bytes of the request body that are held."""
        self.note_upload(held_bytes - self.held_bytes)
        self.held_bytes = held_bytes

    def take_chunk(self, chunk: bytes) -> list[bytes]:
        """Capture a chunk of the response, and return the chunks to send to the client now.

        ``chunk`` is ``b""`` at the end. In buffered mode the result is empty until then."""
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
        """Hold a chunk and return nothing; if there is no room, return all held chunks and hold no more."""
        self.held.add(chunk)
        if self.held.size <= held_response.MAX_BYTES and self.may_hold(self.held.size):
            return []
        self.is_buffered = False
        self.may_hold(0)
        return self.held.take()

    def finish(self, outcome: TransportOutcome, error_type: str | None = None) -> None:
        """Release the captured exchange to the recorder. Only the first call has an effect."""
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
        """Delete the captured exchange, since nothing was sent to the upstream."""
        capture, self.capture = self.capture, None
        if capture is not None:
            capture.discard()
