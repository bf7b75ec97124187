"""The format of spool files: one append-only file per exchange, from the proxy to the recorder.

As in a maildir, a file is created, appended to, and renamed when it is complete. Each run of a proxy has
a folder of its own below ``data/spool`` and holds an exclusive lock on it. If the lock is free, that run
has ended, and the recorder takes over the files that it left unfinished.

    data/spool/<run id>/lock
    data/spool/<run id>/reserve                              room for when the disk is full
    data/spool/<run id>/free/<number>                        emptied, for another exchange
    data/spool/<run id>/<entry id>~<organization id>.open    being written
    data/spool/<run id>/<entry id>~<organization id>.done    complete, never touched again

If the base URL of a call names a run of its client (``runtime.runs``), the id of that run follows that of
the organisation: ``<entry id>~<organization id>~<id>.open``. It is not the run of the proxy, whose id is
the name of the folder.

A file is a sequence of frames: kind (1 byte), milliseconds since the request was complete (a double),
length of the payload (4 bytes), payload. Kinds, in order:

    H  JSON  RequestHead        R  JSON  ResponseHead
    Q  bytes the request body   C  bytes of the response, one frame per chunk
                                E  JSON  Ending

H and Q are one write, before the upstream connection is opened; each C is written before its chunk
is passed on. A request whose file has no complete Q was therefore never forwarded, and becomes no entry.
Headers are written only where they have a field in this module, so no credential is ever written.

When the disk is full, everything but request bodies is written into the space of the reserve.

A response that reports what other calls have used, such as the results of a batch, is kept in a file with
``_report`` in the place of the run: no call is in flight there.

Requests that our own rate limit rejected are counted in ``<id>~rejections.done``, with one J frame.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from itertools import islice
from typing import Literal, NamedTuple

import orjson

from metering.billing import CredentialKind
from metering.request_facts import RequestFacts
from metering.tool_results import FAILED, NO_RESULTS, LastResults, ToolResult, UseResult
from wire.block import CacheTtl
from wire.request import ThreadStep

FRAME = struct.Struct(">cdI")
EMPTY_REQUEST = FRAME.pack(b"Q", 0, 0)
OPEN, DONE, UNREADABLE = ".open", ".done", "unreadable"
LOCK, RESERVE = "lock", "reserve"
REJECTIONS = "rejections"

type TransportOutcome = Literal[
    "complete",
    "upstream_interrupted",
    "upstream_unreachable",
    "upstream_timeout",
    "client_disconnected",
    "proxy_restarted",
]

# What is made of an exchange: an entry, or what its response reports of batches, sessions and dreams.
type Record = Literal[
    "messages", "chat_completions", "batch_results", "session", "session_events", "dream"
]
CALLS: tuple[Record, ...] = ("messages", "chat_completions")
# In the place of the id of a run, which never begins like this: a file that is no call in flight.
REPORT = "_report"

type RequestBodyKept = Literal["whole", "omitted"]
# The results of tools in a request: the number of the message with their uses, and of each result the place
# of its use, the name of the tool, about how many tokens it has, and whether it is an error.
type PackedResults = tuple[int | None, Sequence[tuple[int, str | None, int, bool]]]


class SpoolError(Exception):
    """A spool file that is not valid."""


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class RequestHead:
    """The facts of a request that the proxy knows before it is forwarded.

    Header values are as received, None if absent. ``request_bytes`` is the size of the body on the
    wire, ``path_query`` the path below the slug with its query, without credentials. Of the credential
    only its kind and fingerprint are kept. ``client_hints`` are those of ``metering.client_hints``.
    ``account_hmac`` is the fingerprint of the account named in a body that is not kept, ``tags`` a JSON
    list, ``upstream`` the name of the endpoint's own upstream.

    New fields go to the end and have a default, since files of an older proxy lack them."""

    entry_id: str
    created_at: str
    organization_id: str
    proxy_endpoint_id: str
    slug: str
    metadata_only: bool
    request_bytes: int | None
    request_body: RequestBodyKept
    credential_hmac: str | None = None
    content_encoding: str | None = None
    user_agent: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    retry_count: str | None = None
    path_query: str | None = None
    api_version: str | None = None
    betas: str | None = None
    request_model: str | None = None
    max_tokens: int | None = None
    message_count: int | None = None
    tool_count: int | None = None
    run_id: str | None = None
    credential_kind: CredentialKind | None = None
    workspace_id: str | None = None
    client_hints: dict[str, str] | None = None
    effort: str | None = None
    thinking_budget: int | None = None
    cache_ttl: CacheTtl | None = None
    thread: ThreadStep | None = None
    thread_previous_id: str | None = None
    user_profile_id: str | None = None
    bill_to: str | None = None
    free_containers: bool | None = None
    record: Record = "messages"
    account_hmac: str | None = None
    attributed_user: str | None = None
    project: str | None = None
    tags: str | None = None
    attributes_left_out: int | None = None
    tool_results: PackedResults | None = None
    upstream: str | None = None

    @property
    def facts(self) -> RequestFacts:
        """Return the facts that the proxy read from a request body that is not kept."""
        return RequestFacts(
            model=self.request_model,
            max_tokens=self.max_tokens,
            message_count=self.message_count,
            tool_count=self.tool_count,
            effort=self.effort,
            thinking_budget=self.thinking_budget,
            cache_ttl=self.cache_ttl,
            thread=self.thread,
            thread_previous_id=self.thread_previous_id,
            bill_to=self.bill_to,
            free_containers=self.free_containers,
            tool_results=_unpack_results(self.tool_results),
        )


def pack_results(found: LastResults) -> PackedResults | None:
    """Return the results of tools without their text, as ``RequestHead`` has them, or None."""
    if not found.results:
        return None
    return found.answer, [
        (place, tool, result.tokens, result.problem is not None)
        for place, tool, result in found.results
    ]


def _unpack_results(packed: PackedResults | None) -> LastResults:
    if packed is None:
        return NO_RESULTS
    answer, results = packed
    return LastResults(
        answer,
        [
            UseResult(place, tool, ToolResult(tokens, FAILED if is_error else None))
            for place, tool, tokens, is_error in results
        ],
    )


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class ResponseHead:
    """The facts of the head of a response. ``rate_limits`` has the headers that ``metering.rate_limits``
    collects."""

    status_code: int
    content_type: str | None = None
    content_encoding: str | None = None
    upstream_request_id: str | None = None
    upstream_organization_id: str | None = None
    workspace_id: str | None = None
    rate_limits: dict[str, str] | None = None


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Ending:
    """The outcome of the exchange on the wire, which the recorder refines when it has read the body.
    ``response_lost`` is true when chunks were forwarded but could not be written to the spool."""

    outcome: TransportOutcome
    error_type: str | None = None
    duration_ms: float | None = None
    proxy_overhead_ms: float | None = None
    response_bytes: int = 0
    response_lost: bool = False


BUDGET_BUCKET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A number of requests of one slug that our own limit refused within one clock hour.

    ``hour`` is ``YYYY-MM-DDTHH`` in UTC. ``bucket`` is the kind of request that the rate limit counts,
    or ``BUDGET_BUCKET``."""

    organization_id: str
    proxy_endpoint_id: str
    slug: str
    bucket: str
    hour: str
    count: int


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class SpooledExchange:
    """The content of a spool file.

    ``response`` and ``ttfb_ms`` are None if upstream sent no head; bodies are as on the wire, still
    content-encoded. ``request_body`` is None if it was not kept."""

    head: RequestHead
    request_body: bytes | None
    response: ResponseHead | None
    ttfb_ms: float | None
    response_body: bytes
    last_byte_ms: float | None
    ending: Ending


def parse_exchange(
    data: bytes, name: str = "spool file", *, handed_over: bool = False
) -> SpooledExchange | None:
    """Parse the content of a spool file; return None if it has no whole request.

    A torn frame, or zeros after a power cut, counts as the end of the response. ``handed_over``: the
    proxy has finished the file, so a missing ending means that there was no room for it. Raises
    SpoolError."""
    frames = _frames(data)
    head = _parse_request_head(next(frames, None), name)
    request = next(frames, None)
    if head is None or request is None or request.torn:
        return None
    if request.kind != b"Q":
        raise SpoolError(f"{name}: no request after its head")
    response = _PartialResponse()
    for frame in frames:
        if not response.take(frame):
            break
    if response.ending is None:
        response.drop_zeros()
    body = b"".join(response.chunks)
    return SpooledExchange(
        head=head,
        request_body=request.payload if head.request_body == "whole" else None,
        response=response.head,
        ttfb_ms=response.ttfb_ms,
        response_body=body,
        last_byte_ms=response.last_byte_ms,
        ending=response.ending
        or Ending(
            outcome="complete" if handed_over else "proxy_restarted",
            duration_ms=response.last_byte_ms,
            response_bytes=len(body),
            response_lost=handed_over,
        ),
    )


def parse_response(data: bytes) -> tuple[ResponseHead | None, bytes, int]:
    """Return (head or None, body, size) of the whole frames of a response in ``data``.

    ``size`` is the number of bytes of these frames: the rest must be read again with what follows."""
    response, size = _PartialResponse(), 0
    for frame in _frames(data):
        if frame.torn or not response.take(frame):
            break
        size += FRAME.size + len(frame.payload)
    return response.head, b"".join(response.chunks), size


def complete(data: bytes, name: str = "spool file") -> bytes | None:
    """Return an unfinished file with the ending that ``parse_exchange`` finds, or None.

    None means that the request was never forwarded. Raises SpoolError."""
    exchange = parse_exchange(data, name)
    if exchange is None:
        return None
    kept = bytearray()
    for frame in _frames(data):
        if frame.kind not in (b"H", b"Q", b"R", b"C") or (frame.torn and frame.kind != b"C"):
            break
        kept += _pack(frame.kind, frame.elapsed_ms, frame.payload)
    return bytes(kept) + _pack(
        b"E", exchange.ending.duration_ms or 0, orjson.dumps(exchange.ending)
    )


def pack_rejections(rejections: Sequence[Rejection]) -> bytes:
    """Return rejections as the content of a spool file."""
    return _pack(b"J", 0, orjson.dumps(list(rejections)))


def _pack(kind: bytes, elapsed_ms: float, payload: bytes) -> bytes:
    return FRAME.pack(kind, elapsed_ms, len(payload)) + payload


def measure_frame(header: bytes) -> int:
    """Return the size in bytes of a frame whose first bytes are ``header``. Raises SpoolError if they are
    too few."""
    if len(header) < FRAME.size:
        raise SpoolError("the file ends before its response")
    _, _, length = FRAME.unpack(header)
    return FRAME.size + int(length)


def measure_request(data: bytes) -> int:
    """Return the size in bytes of the request's frames, the first two of a spool file."""
    return sum(FRAME.size + len(frame.payload) for frame in islice(_frames(data), 2))


def parse_rejections(data: bytes, name: str) -> list[Rejection]:
    """Return the rejections in a spool file. Raises SpoolError if it is not a whole J frame."""
    frames = list(_frames(data))
    if len(frames) != 1 or frames[0].kind != b"J" or frames[0].torn:
        raise SpoolError(f"{name}: not a record of rejections")
    try:
        return [Rejection(**item) for item in orjson.loads(frames[0].payload)]
    except (ValueError, TypeError) as error:
        raise SpoolError(f"{name}: {error}") from error


# The values of fields that a file lacks.
_DEFAULTS: dict[type, dict[str, object]] = {
    kind: {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    for kind in (RequestHead, ResponseHead, Ending)
}


def _read_object[T](kind: type[T], payload: bytes) -> T:
    """Return the object of class ``kind`` in a JSON payload. Raises ValueError, TypeError."""
    # An argument takes its time by the comparisons of its name with those of the class, one after the
    # other. For names that are of the class themselves, a comparison is one of pointers.
    return kind(**(_DEFAULTS[kind] | orjson.loads(payload)))


def _parse_request_head(frame: "_Frame | None", name: str) -> RequestHead | None:
    if frame is None:
        return None
    if frame.kind != b"H":
        raise SpoolError(f"{name}: not a spool file")
    if frame.torn:
        return None
    try:
        return _read_object(RequestHead, frame.payload)
    except (ValueError, TypeError) as error:
        raise SpoolError(f"{name}: {error}") from error


@dataclass(slots=True)
class _PartialResponse:
    """The part of a response that has been read so far."""

    head: ResponseHead | None = None
    ttfb_ms: float | None = None
    last_byte_ms: float | None = None
    chunks: list[bytes] = field(default_factory=list)
    ending: Ending | None = None

    def take(self, frame: "_Frame") -> bool:
        """Add a frame; return whether more may follow. A torn frame is used only if it is a chunk."""
        if frame.kind == b"C":
            self.chunks.append(frame.payload)
            self.last_byte_ms = frame.elapsed_ms
            return not frame.torn
        if frame.torn:
            return False
        try:
            if frame.kind == b"R":
                self.head = _read_object(ResponseHead, frame.payload)
                self.ttfb_ms = self.last_byte_ms = frame.elapsed_ms
            elif frame.kind == b"E":
                self.ending = _read_object(Ending, frame.payload)
        except (ValueError, TypeError):
            return False
        return frame.kind == b"R"

    def drop_zeros(self) -> None:
        """Remove the zeros at the end of the last chunk, unless the body is encoded.

        After a loss of power a file has zeros if its last blocks never reached the disk. Encoded bodies
        may end with zeros of their own."""
        if self.chunks and (self.head is None or self.head.content_encoding is None):
            self.chunks[-1] = self.chunks[-1].rstrip(b"\0")


class _Frame(NamedTuple):
    kind: bytes
    elapsed_ms: float
    payload: bytes
    torn: bool


def _frames(data: bytes) -> Iterator[_Frame]:
    start = FRAME.size
    while start <= len(data):
        kind, elapsed_ms, length = FRAME.unpack_from(data, start - FRAME.size)
        payload = data[start : start + length]
        yield _Frame(kind, elapsed_ms, payload, len(payload) < length)
        start += len(payload) + FRAME.size
