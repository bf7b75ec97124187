"""Calls by their numbers, and streams that stand still in the middle.

Each call carries a number in its query, by which the upstream chooses its script, and in its body,
by which its entry is found again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.live.service import Endpoint, Row, body_bytes
from tests.rawclient import Cut, RawClient
from tests.upstream import Gate, Script, SeenRequest, message_events, sse


def number_of(seen: SeenRequest) -> int:
    """Return the number of a call that the upstream saw."""
    return int(parse_qs(urlsplit(seen.target).query)["n"][0])


def numbered(endpoint: Endpoint, number: int) -> bytes:
    """Return the bytes of the call with this number."""
    body = json.dumps({"n": number, "stream": True}).encode()
    return endpoint.message(body, path=f"/v1/messages?n={number}")


def rows_by_number(rows: Sequence[Row]) -> dict[int, Row]:
    """Return entries by the numbers of their calls, which must all be different."""
    numbers = Counter(_number_of_row(row) for row in rows)
    assert [number for number, times in numbers.items() if times > 1] == []
    return {_number_of_row(row): row for row in rows}


def _number_of_row(row: Row) -> int:
    number: int = json.loads(row["request_body"])["n"]
    return number


def events_of(number: int) -> list[bytes]:
    """Return the events of the response to the call with this number."""
    return message_events([f"text of {number}", f" ends {number}"], output_tokens=number + 1)


@dataclass
class Stream:
    """A streamed call that stands at a gate, with the first half of its answer at the client."""

    number: int
    client: RawClient
    gate: Gate
    pieces: Iterator[bytes]

    @property
    def first(self) -> bytes:
        return b"".join(events_of(self.number)[:3])

    @property
    def whole(self) -> bytes:
        return b"".join(events_of(self.number))

    def finish(self) -> None:
        self.gate.open()
        assert self.first + b"".join(self.pieces) == self.whole

    def assert_cut(self) -> None:
        with pytest.raises(Cut):
            for _ in self.pieces:
                pass


def open_all(stack: ExitStack, endpoint: Endpoint, count: int) -> list[Stream]:
    """Open so many streams and read their first halves; their clients close with the stack."""
    gates = [Gate() for _ in range(count)]

    def choose(seen: SeenRequest) -> Script:
        events, gate = events_of(number_of(seen)), gates[number_of(seen)]
        return sse([*events[:3], gate, *events[3:]])

    endpoint.upstream.choose = choose
    clients = [stack.enter_context(endpoint.connect()) for _ in range(count)]
    for number, client in enumerate(clients):
        client.send(numbered(endpoint, number))
    streams = []
    for number, (client, gate) in enumerate(zip(clients, gates, strict=True)):
        pieces = client.iter_body(client.read_response_head())
        streams.append(Stream(number, client, gate, pieces))
        received = b""
        while len(received) < len(streams[-1].first):
            received += next(pieces)
        assert received == streams[-1].first
    return streams


def assert_complete(row: Row, stream: Stream) -> None:
    assert (row["outcome"], row["status_code"]) == ("complete", 200)
    assert body_bytes(row["response_body"]) == stream.whole
    assert row["output_tokens"] == stream.number + 1


def assert_interrupted_by_restart(row: Row, stream: Stream) -> None:
    """All that had come is there, and it says why there is no more."""
    assert (row["outcome"], row["status_code"]) == ("proxy_restarted", 200)
    assert body_bytes(row["response_body"]) == stream.first
    assert (row["usage_source"], row["input_tokens"]) == ("estimated", 11)
