"""Requests that two servers could read in two ways, with the upstream as the witness."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.hostile.exchange import judge_all
from tests.hostile.framing import CASES, SMUGGLED, Framing, message
from tests.hostile.witness import Evidence, find_flaw, find_harm, respond, response_to
from tests.live.service import Service
from tests.upstream import SeenRequest, Upstream

SEEN_HEAD = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\n\r\n"


def test_what_reaches_the_upstream_is_well_formed_and_recorded_whatever_a_client_sends(
    service: Service, upstream: Upstream
) -> None:
    harms = judge_all(service, upstream, CASES)
    assert harms == {}, json.dumps(harms, indent=1)


def see(head: bytes = SEEN_HEAD, body: bytes = b"hello") -> SeenRequest:
    """Return a request as an upstream would have seen it."""
    lines = head[:-4].decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = [(name, value.strip()) for name, _, value in (x.partition(":") for x in lines[1:])]
    seen = SeenRequest(1, head, method, target, headers, "length", bytearray(body))
    seen.whole.set()
    return seen


ROW = {"request_body": "hello", "path_query": "/v1/messages"}
CASE = Framing("a case", message(b"hello"), (b"hello", SMUGGLED))
HARMLESS = Evidence(received=response_to(b"hello"), seen=[see()], faults=[])


def test_a_request_that_arrived_and_was_recorded_is_harmless() -> None:
    assert find_harm(CASE, HARMLESS, [ROW]) is None


@pytest.mark.parametrize(
    ("changed", "rows", "harm"),
    [
        (lambda case, all_: (case, replace(all_, faults=["x"])), [ROW], "could not read"),
        (lambda case, all_: (case, all_), [], "were recorded"),
        (lambda case, all_: (case, all_), [ROW, ROW], "were recorded"),
        (lambda case, all_: (case, all_), [ROW | {"path_query": "/v1"}], "were recorded"),
        (lambda case, all_: (case, replace(all_, received=b"")), [ROW], "no response"),
        (lambda case, all_: (replace(case, may_arrive=()), all_), [ROW], "bodies arrived"),
        (lambda case, all_: (case, replace(all_, seen=[see(body=SMUGGLED)])), [ROW], "arrived"),
        (lambda case, all_: (case, replace(all_, seen=[], received=b"")), [], "not refused"),
    ],
)
def test_anything_else_is_harm(
    changed: Callable[[Framing, Evidence], tuple[Framing, Evidence]],
    rows: list[dict[str, str]],
    harm: str,
) -> None:
    assert harm in (find_harm(*changed(CASE, HARMLESS), rows) or "")


@pytest.mark.parametrize(
    "line",
    [
        b"content-length: 5",
        b"transfer-encoding: chunked",
        b"connection: close",
        b"host: y",
        b"x-app: a\rb: c",
        b"x-app: a\n b",
        b"x-app : a",
        b"x-app: \x00",
    ],
)
def test_a_flaw_in_a_head_is_found(line: bytes) -> None:
    assert find_flaw(see()) is None
    assert find_flaw(see(SEEN_HEAD.replace(b"content", line + b"\r\ncontent"))) is not None


def test_a_length_that_is_no_number_is_a_flaw() -> None:
    assert find_flaw(see(SEEN_HEAD.replace(b": 5", b": +5"))) == "its length is no number"


def test_the_response_tells_requests_apart() -> None:
    [make] = respond(see()).steps
    assert callable(make)
    made = make(see())
    assert isinstance(made, bytes)
    assert made.endswith(b"\r\n\r\n" + response_to(b"hello"))
    assert response_to(b"hello") != response_to(SMUGGLED)
