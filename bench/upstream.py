"""``python -m bench.upstream``: a fast stand-in for the messages API, on loopback.

Prints the port it listens on. The query of a request chooses the response:

    (none)                                 2 KB of JSON, one write
    response=sse                             4 KB of events, one write
    response=paced&events=40&gap_ms=10       one event a write, at a steady pace
      &gate_s=<monotonic seconds>          and the pace starts at that moment (default: now)

Every paced event carries the moment it was written, ``"t":<monotonic seconds>``. On Linux that clock
is one for all processes, so a client knows how late each event is, whatever made the upstream slow.
"""

import asyncio
import json
import resource
import time
from collections.abc import Callable
from typing import Literal, NamedTuple
from urllib.parse import parse_qs

MAX_LIFE_S = 1800.0
USAGE = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 700,
    "cache_read_input_tokens": 60_000,
    "output_tokens": 431,
    "service_tier": "standard",
}
MESSAGE = {
    "id": "msg_01ABCDEFGHIJKLMNOPQRSTUV",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
}
LIMITS = b"".join(
    b"anthropic-ratelimit-%b-limit: 4000\r\n"
    b"anthropic-ratelimit-%b-remaining: 3999\r\n"
    b"anthropic-ratelimit-%b-reset: 2026-01-01T00:00:00Z\r\n" % (kind, kind, kind)
    for kind in (b"requests", b"tokens", b"input-tokens", b"output-tokens")
)
HEADERS = (
    b"HTTP/1.1 200 OK\r\n"
    b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"request-id: req_011CSHoEeqs5C35K2UUqR7Fy\r\n"
    b"anthropic-organization-id: 01234567-89ab-cdef-0123-456789abcdef\r\n"
    + LIMITS
    + b"server: cloudflare\r\n"
)
STREAM_HEAD = (
    HEADERS + b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


class Pace(NamedTuple):
    events: int
    gap_s: float
    gate_s: float


def event(name: str, **fields: object) -> bytes:
    data = json.dumps({"type": name, **fields}, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def delta(text: str) -> bytes:
    content = {"type": "text_delta", "text": text}
    return event("content_block_delta", index=0, delta=content)


START = event("message_start", message=MESSAGE | {"content": [], "usage": USAGE}) + event(
    "content_block_start", index=0, content_block={"type": "text", "text": ""}
)
END = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 431})
    + event("message_stop")
)


def make_json_response() -> bytes:
    content = [{"type": "text", "text": "Lorem ipsum dolor sit amet. " * 60}]
    document = MESSAGE | {"content": content, "stop_reason": "end_turn", "usage": USAGE}
    body = json.dumps(document).encode()
    framing = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return HEADERS + framing + body


def make_stream_response() -> bytes:
    body = START + delta("Lorem ipsum dolor sit amet. ") * 24 + END
    return STREAM_HEAD + chunk(body) + LAST_CHUNK


def paced_event(now_s: float) -> bytes:
    return chunk(delta("Lorem ipsum.").removesuffix(b"}\n\n") + b',"t":%.6f}\n\n' % now_s)


class Connection(asyncio.Protocol):
    """A client connection. Requests need a content-length, which all clients here send."""

    json_response = make_json_response()
    stream_response = make_stream_response()
    paced_start, paced_end = chunk(START), chunk(END) + LAST_CHUNK

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._body_left = 0
        self._target = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._body_left:
            self._body_left -= len(data)
        else:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            self._target = head.split(b" ", 2)[1]
            self._body_left = content_length(head) - (len(self._buffer) - end - 4)
            self._buffer.clear()
        if self._body_left <= 0:
            self._body_left = 0
            self._respond()

    def _respond(self) -> None:
        _, _, query = self._target.partition(b"?")
        if not query:
            self._write(self.json_response)
        elif query == b"response=sse":
            self._write(self.stream_response)
        else:
            pace = parse_pace(query)
            self._write(STREAM_HEAD + self.paced_start)
            self._write_events(pace, 0)

    def _write_events(self, pace: Pace, number: int) -> None:
        if number == pace.events:
            self._write(self.paced_end)
            return
        now_s = time.monotonic()
        due_s = pace.gate_s + number * pace.gap_s
        if now_s < due_s:
            asyncio.get_running_loop().call_later(due_s - now_s, self._write_events, pace, number)
            return
        self._write(paced_event(now_s))
        asyncio.get_running_loop().call_soon(self._write_events, pace, number + 1)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def parse_pace(query: bytes) -> Pace:
    fields = {name: values[0] for name, values in parse_qs(query.decode()).items()}
    return Pace(
        events=int(fields["events"]),
        gap_s=float(fields["gap_ms"]) / 1000,
        gate_s=float(fields.get("gate_s", time.monotonic())),
    )


async def listen(factory: Callable[[], Connection], host: Literal["127.0.0.1"]) -> None:
    server = await asyncio.get_running_loop().create_server(factory, host, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(MAX_LIFE_S)  # the benchmark ends it long before
    server.close()


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(listen(Connection, "127.0.0.1"))


if __name__ == "__main__":
    main()
