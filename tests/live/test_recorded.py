"""Recorded exchanges, replayed through the real program.

All of them are sent once per streaming mode, each event stream with several chunk borders, each
exchange through an endpoint of its own; the tests then look at both ends of the wire and at the entries.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.live.service import API_KEY, Row, Service, body_bytes
from tests.rawclient import RawClient, Response, request
from tests.recorded import CASES, RECORDED, load_expected, needs_recorded
from tests.upstream import Headers, Script, SeenRequest, Upstream, answer, chunked

pytestmark = needs_recorded

type Borders = Literal["whole", "events", "odd"]

ALLOWED = {
    *("x-api-key", "authorization", "user-agent", "accept", "accept-language", "accept-encoding"),
    *("x-app", "idempotency-key", "traceparent", "tracestate", "host"),
}
ALLOWED_PREFIXES = ("anthropic-", "x-stainless-", "x-claude-code-", "content-")
COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
ODD_SIZE = 1021


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One recorded exchange with one choice of chunk borders."""

    name: str
    borders: Borders
    target: str
    request_headers: Headers
    request_body: bytes
    status: int
    response_headers: Headers
    wire_body: bytes
    decoded_body: bytes
    expected: dict[str, Any]

    @property
    def slug(self) -> str:
        return f"{self.name}-{self.borders}".lower().replace("_", "-")

    @property
    def is_stream(self) -> bool:
        return bool(self.expected["streaming"])

    def script(self) -> Script:
        if not self.is_stream:
            return answer(self.status, self.wire_body, self.response_headers)
        return chunked(self.status, cut_at(self.wire_body, self.borders), self.response_headers)


@dataclass(frozen=True, slots=True)
class Replay:
    """One exchange, as it looked from every side."""

    sent: Headers
    seen: SeenRequest
    upstream_host: str
    response: Response
    rows: list[Row]


type Replays = dict[str, Replay]


def cut_at(body: bytes, borders: Borders) -> Sequence[bytes]:
    if borders == "whole":
        return [body]
    if borders == "events":
        return [piece for piece in body.replace(b"\n\n", b"\n\n\0").split(b"\0") if piece]
    return [body[start : start + ODD_SIZE] for start in range(0, len(body), ODD_SIZE)]


def _load() -> Iterator[Exchange]:
    for name, case in CASES.items():
        expected = load_expected(name)
        decoded = (RECORDED / case["response_file"]).read_bytes()
        wire = (RECORDED / case.get("wire_file", case["response_file"])).read_bytes()
        headers = [("Content-Type", case["content_type"]), *map(tuple, case["response_headers"])]
        if "content_encoding" in case:
            headers.append(("Content-Encoding", case["content_encoding"]))
        # Compressed streams have no event borders to cut at.
        borders: list[Borders] = ["whole"]
        if expected["streaming"]:
            borders += ["odd"] if "wire_file" in case else ["events", "odd"]
        for border in borders:
            yield Exchange(
                name=name,
                borders=border,
                target=case["request"]["target"],
                request_headers=[(key, value) for key, value in case["request"]["headers"]],
                request_body=_request_body(case, expected),
                status=case["status"],
                response_headers=headers,
                wire_body=wire,
                decoded_body=decoded,
                expected=expected,
            )


def _request_body(case: dict[str, Any], expected: dict[str, Any]) -> bytes:
    """The recorded one, or a plausible one where only the response was recorded."""
    if "request_file" in case:
        recorded: Path = RECORDED / case["request_file"]
        return recorded.read_bytes()
    body = {
        "model": expected["model"],
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": f"Grüße — {case['name']}"}],
        "stream": expected["streaming"],
    }
    return json.dumps(body, ensure_ascii=False).encode()


def _headers_to_send(exchange: Exchange, service: Service) -> Headers:
    """The recorded headers in their order and case; only what belongs to this connection is new."""
    mine = {
        "host": service.host,
        "content-type": "application/json",
        "x-api-key": API_KEY,
        "content-length": str(len(exchange.request_body)),
    }
    sent = [(name, mine.pop(name.lower(), value)) for name, value in exchange.request_headers]
    return [*sent, *mine.items()]


def _expected_at_upstream(sent: Headers, upstream_host: str) -> Headers:
    return [
        (name, upstream_host if name.lower() == "host" else value)
        for name, value in sent
        if name.lower() in ALLOWED or name.lower().startswith(ALLOWED_PREFIXES)
    ]


EXCHANGES = list(_load())


@pytest.fixture(scope="module", params=["live", "buffered"])
def replays(
    request: pytest.FixtureRequest, shared_service: Service, shared_upstream: Upstream
) -> Replays:
    """Everything, sent once through the service in this mode."""
    service, upstream = shared_service, shared_upstream
    upstream.reset()
    slugs = {exchange.slug: f"{request.param}-{exchange.slug}" for exchange in EXCHANGES}
    for slug in slugs.values():
        service.create_endpoint(slug, request.param)
    halves = {
        exchange.slug: _replay(exchange, slugs[exchange.slug], service, upstream)
        for exchange in EXCHANGES
    }
    assert upstream.faults == []
    rows: dict[str, list[Row]] = {slug: [] for slug in slugs.values()}
    for row in service.settled_rows(f"{request.param}-%"):
        rows[row["slug"]].append(row)
    return {
        slug: Replay(sent, seen, upstream.host, response, rows[slugs[slug]])
        for slug, (sent, seen, response) in halves.items()
    }


def _replay(
    exchange: Exchange, slug: str, service: Service, upstream: Upstream
) -> tuple[Headers, SeenRequest, Response]:
    before = len(upstream.requests)
    upstream.enqueue(exchange.script())
    sent = _headers_to_send(exchange, service)
    with RawClient(service.address) as client:
        head = request("POST", f"/proxy/{slug}{exchange.target}", sent)
        response = client.exchange(head + exchange.request_body)
    assert len(upstream.requests) == before + 1, f"{exchange.slug}: {response}"
    return sent, upstream.requests[-1], response


def test_requests_arrive_unchanged(replays: Replays, subtests: pytest.Subtests) -> None:
    for exchange in EXCHANGES:
        with subtests.test(exchange.slug):
            check_request(exchange, replays[exchange.slug])


def check_request(exchange: Exchange, replay: Replay) -> None:
    seen = replay.seen
    assert (seen.method, seen.target) == ("POST", exchange.target)
    assert bytes(seen.body) == exchange.request_body
    assert seen.headers == _expected_at_upstream(replay.sent, replay.upstream_host)


def test_responses_come_back_unchanged(replays: Replays, subtests: pytest.Subtests) -> None:
    for exchange in EXCHANGES:
        with subtests.test(exchange.slug):
            check_response(exchange, replays[exchange.slug])


def check_response(exchange: Exchange, replay: Replay) -> None:
    response = replay.response
    framing = (
        ("transfer-encoding", "chunked")
        if exchange.is_stream
        else ("content-length", str(len(exchange.wire_body)))
    )
    assert response.status == exchange.status
    assert response.head.headers == [*exchange.response_headers, framing]
    assert response.body == exchange.wire_body
    assert not response.cut


def test_what_is_logged_is_what_was_recorded(replays: Replays, subtests: pytest.Subtests) -> None:
    for exchange in EXCHANGES:
        with subtests.test(exchange.slug):
            check_entry(exchange, replays[exchange.slug].rows)


def check_entry(exchange: Exchange, rows: list[Row]) -> None:
    expected = exchange.expected
    if not expected["logged"]:
        assert rows == []
        return
    [row] = rows
    counts = {name: row[name] or 0 for name in COUNTS}
    assert counts == {name: expected[name] or 0 for name in COUNTS}
    assert row["model"] in [expected["model"], *expected.get("model_alternatives", [])]
    assert row["status_code"] == expected["status"]
    assert row["outcome"] == ("upstream_error" if exchange.status >= 400 else "complete")
    assert bool(row["streamed"]) == exchange.is_stream
    assert body_bytes(row["request_body"]) == exchange.request_body
    assert body_bytes(row["response_body"]) == exchange.decoded_body
    assert (row["request_bytes"], row["response_bytes"]) == (
        len(exchange.request_body),
        len(exchange.wire_body),
    )
