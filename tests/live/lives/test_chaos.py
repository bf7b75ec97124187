"""Calls of every kind at once, well and badly behaved at both ends, also while the service ends."""

import gzip
import os
import random
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.live.lives.streams import events_of, number_of, numbered, rows_by_number
from tests.live.lives.traffic import Workers, wait_for_traffic
from tests.live.service import REQUEST_HEADERS, Endpoint, Row, Service, body_bytes
from tests.rawclient import Cut, RawClient, Response, request
from tests.upstream import (
    CLOSE,
    RESET,
    STALL,
    Script,
    SeenRequest,
    Upstream,
    answer,
    chunk,
    chunked,
    cut_sse,
    error_json,
    event,
    head,
    last_chunk,
    message_json,
    sse,
    wait_until,
)


def _bad_chunk(events: list[bytes]) -> Script:
    return Script(
        (head(200, [("transfer-encoding", "chunked")]), chunk(events[0]), b"nonsense\r\n")
    )


def _gzipped(events: list[bytes]) -> Script:
    packed = gzip.compress(b"".join(events))
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    return chunked(200, [packed[:40], packed[40:]], headers)


JSON_HEADERS = [("content-type", "application/json")]
SCRIPTS: dict[str, Callable[[list[bytes]], Script]] = {
    "sse": sse,
    "json": lambda events: answer(200, message_json()),
    "gzip": _gzipped,
    "interim": lambda events: sse(events).preceded_by(head(100), head(103, [("link", "<x>")])),
    "trailers": lambda events: chunked(200, events, trailers=[("x-sum", "1")]),
    "until-close": lambda events: answer(200, message_json(), framing="close"),
    "announced-close": lambda events: answer(
        200, message_json(), [*JSON_HEADERS, ("connection", "close")]
    ).then(CLOSE),
    "429": lambda events: answer(429, error_json("rate_limit_error", "slow")),
    "529": lambda events: answer(529, b"", []),
    "error-event": lambda events: sse(
        [*events[:2], event("error", error={"type": "api_error", "message": "x"})]
    ),
    "garbage": lambda events: Script((b"\x00\x01garbage\r\n\r\n", CLOSE)),
    "bad-chunk": _bad_chunk,
    "cut": lambda events: cut_sse(events[:4]),
    "reset": lambda events: cut_sse(events[:4], RESET),
    "no-answer": lambda events: Script((CLOSE,)),
    "early": lambda events: Script(answer(400, b"{}").steps, early=True),
    "stall": lambda events: Script((STALL,)),
    "stall-midway": lambda events: cut_sse(events[:3], STALL),
}
LEAVING = {"leave-before": "stall", "leave-during": "stall-midway"}
CLIENTS = (
    *("polite", "polite", "polite", "chunked", "expect"),
    *("slow", "old", "two-calls", "half-close"),
)
ABORTED = ("abort-upload", *LEAVING)


@dataclass
class Chaos:
    """Calls of every kind, well and badly behaved at both ends, each decided by its number."""

    upstream: Upstream
    service: Service
    seed: int
    heard: dict[int, Response] = field(default_factory=dict)
    """The whole answers that clients heard."""

    def plan(self, number: int) -> tuple[str, str]:
        """Choose how the client and the upstream behave in a call."""
        dice = random.Random(f"{self.seed} {number}")  # noqa: S311
        if dice.random() < 0.25:
            client = dice.choice(ABORTED)
            return client, LEAVING.get(client, "sse")
        scripts = [name for name in SCRIPTS if not name.startswith("stall")]
        return dice.choice(CLIENTS), dice.choice(scripts)

    def choose(self, seen: SeenRequest) -> Script:
        number = number_of(seen)
        return SCRIPTS[self.plan(number % 10_000)[1]](events_of(number % 10_000))

    def call(self, number: int) -> None:
        """Make the call. That a connection ends is no error here; that it hangs is one."""
        endpoint = Endpoint(self.service, self.upstream, f"chaos-{number % 4}")
        how = self.plan(number)[0]
        with suppress(Cut, ConnectionError), endpoint.connect() as client:
            if how == "two-calls":  # the second on the same connection
                self._hear(number, client.exchange(numbered(endpoint, number)))
                self._hear(number + 10_000, client.exchange(numbered(endpoint, number + 10_000)))
            elif how == "abort-upload":
                client.send(numbered(endpoint, number)[:-3])
            elif how in LEAVING:
                self._leave(client, endpoint, number)
            else:
                self._send(client, endpoint, number, how)
                self._hear(number, client.read_response())

    def _send(self, client: RawClient, endpoint: Endpoint, number: int, how: str) -> None:
        data = numbered(endpoint, number)
        top, _, body = data.partition(b"\r\n\r\n")
        target = endpoint.target(f"/v1/messages?n={number}")
        if how == "chunked":
            headers = [*REQUEST_HEADERS, ("transfer-encoding", "chunked")]
            client.send(request("POST", target, headers))
            client.send_chunk(body[:5])
            client.send_chunk(body[5:])
            client.send(last_chunk([("x-sum", "1")]))
        elif how == "expect":
            client.send(top + b"\r\nexpect: 100-continue\r\n\r\n")
            if client.read_head().status == 100:
                client.send(body)
        elif how == "slow":
            for start in range(0, len(data), 50):
                client.send(data[start : start + 50])
        elif how == "old":
            client.send(request("POST", target, REQUEST_HEADERS, body, version="1.0"))
        else:
            client.send(data)
        if how == "half-close":
            client.half_close()

    def _leave(self, client: RawClient, endpoint: Endpoint, number: int) -> None:
        client.send(numbered(endpoint, number))
        wait_until(
            lambda: self.was_seen(number) or select.select([client.socket], [], [], 0)[0],
            f"call {number} at the upstream",
        )
        if self.plan(number)[0] == "leave-during":
            response = client.read_response_head()
            if number % 2 == 0:  # the others are buffered: no body before it is whole
                next(client.iter_body(response), None)
        if number % 3:
            client.reset()

    def _hear(self, number: int, response: Response) -> None:
        tells_its_end = response.head.framing("POST") != "close"
        if tells_its_end and not response.cut and response.header("x-taximeter-error") is None:
            self.heard[number] = response

    def was_seen(self, number: int) -> bool:
        return any(number_of(seen) == number for seen in list(self.upstream.requests))


def test_in_chaos_there_is_one_entry_for_each_request_that_the_upstream_saw(
    ending: Endpoint,
) -> None:
    service, upstream = ending.service, ending.upstream
    for number in range(4):
        service.create_endpoint(f"chaos-{number}", "buffered" if number % 2 else "live")
    tracebacks = service.output.count("Traceback")
    chaos = Chaos(upstream, service, seed=20261121)
    upstream.choose = chaos.choose

    with Workers(chaos.call, range(150)):
        wait_for_traffic(upstream, 75)
        for _ in range(3):  # as service managers do: every process is told, and more than once
            os.killpg(service.pid, signal.SIGTERM)
    assert service.wait() == 0
    service.start()
    with Workers(chaos.call, range(1000, 1075)):
        pass
    upstream.refuse()
    with Workers(lambda number: _assert_502(chaos, number), range(2000, 2020)):
        pass
    upstream.accept()
    with Workers(chaos.call, range(3000, 3075)):
        pass

    rows = rows_by_number(service.settled_rows("chaos-%"))
    refused = {number for number, row in rows.items() if row["outcome"] == "upstream_unreachable"}
    seen = [number_of(request) for request in upstream.requests]
    assert len(seen) == len(set(seen))
    assert set(rows) - refused == set(seen)
    assert refused == set(range(2000, 2020))
    for number, response in chaos.heard.items():
        _assert_same(rows[number], response)
    assert service.unreadable_files() == []
    assert service.output.count("Traceback") == tracebacks


def _assert_502(chaos: Chaos, number: int) -> None:
    endpoint = Endpoint(chaos.service, chaos.upstream, f"chaos-{number % 4}")
    assert endpoint.send(numbered(endpoint, number)).status == 502


def _assert_same(row: Row, response: Response) -> None:
    """The entry holds what the client heard."""
    body = response.body
    if response.header("content-encoding") == "gzip":
        body = gzip.decompress(body)
    assert (row["status_code"], body_bytes(row["response_body"]) or b"") == (response.status, body)
