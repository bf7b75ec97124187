"""Attacks by a collector, by what calls hold, and by credentials in the wrong place."""

import gzip
import logging
import os
import resource
import signal
import time
from dataclasses import fields, replace

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from extensions.otel.__main__ import Sender, deadline
from extensions.otel.collector import explain, list_secrets
from extensions.otel.spans import MAX_TEXT, SpanMaker
from metering.token_counts import TokenCounts
from runtime.settings import Settings
from store.following.follower import BatchRefusedError, ReceiverAwayError
from store.traces.calls.finished_calls import FinishedCall
from tests.upstream import CLOSE, RESET, STALL, Script, Upstream, answer, wait_until

SECRET = "s3cret-of-the-collector"
CALL = FinishedCall(
    id=1, entry_id="e1", created_at="2026-01-02T03:04:05.678Z", slug="team", outcome="complete", streamed=0,
    model="claude-x", request_model="claude-x", tokens=TokenCounts(input_tokens=1, output_tokens=1),
    thinking_tokens=None, cost_cents=1.0,
    duration_ms=1.0, ttfb_ms=None, proxy_overhead_ms=None, status_code=200, error_type=None,
    stop_reason="end_turn", max_tokens=1, session_id="s", agent_id=None, client="c",
    upstream_request_id=None,
)  # fmt: skip
PROTOBUF = [("content-type", "application/x-protobuf")]


def left_out(count, message=""):
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = count
    response.partial_success.error_message = message
    return response.SerializeToString()


@pytest.fixture
def collector():
    with Upstream() as collector:
        yield collector


@pytest.fixture
def make_sender(collector, monkeypatch):
    """A sender with these variables besides; the library's own logger is as it was afterwards."""
    library = logging.getLogger("opentelemetry")
    before = library.handlers[:], library.propagate

    def make(**variables):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{SECRET},x-key={SECRET}"
        )
        # Less than the library waits before it tries again, for that is no part of what is tested.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        for name, text in variables.items():
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", text)
        return Sender(Settings.from_env({}))

    yield make
    library.handlers, library.propagate = before


def send(sender):
    try:
        return sender.send("org_1", [(CALL, None)])
    finally:
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


REDIRECT = [("location", "http://127.0.0.1:1/steal")]
AWAY = {
    **{f"a redirect ({status})": answer(status, b"", REDIRECT) for status in (301, 302, 303, 307, 308)},
    "not modified": answer(304, b"", framing="none"),
    "a page of a proxy": answer(200, b"<html>sign in", [("content-type", "text/html; charset=utf-8")]),
    "a page in capitals": answer(200, b"<HTML>SIGN IN", [("content-type", "TEXT/HTML")]),
    "a long page": answer(200, b"<html>" + b"x" * 100_000, [("content-type", "text/html")]),
    "an error that may pass": answer(503, b""),
    "a retry after years": answer(503, b"", [("retry-after", "9" * 300)]),
    "a retry at no time": answer(503, b"", [("retry-after", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT")]),
    "a retry in the past": answer(429, b"", [("retry-after", "-99999999999")]),
    "a retry after nothing": answer(429, b"", [("retry-after", "nan")]),
    "no HTTP": Script((b"220 smtp\r\n\r\n", CLOSE)),
    "nothing": Script((CLOSE,)),
    "a reset": Script((RESET,)),
    "silence": Script((STALL,)),
    "a head without end": Script((b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, STALL)),
    "a header without end": Script((b"HTTP/1.1 200 OK\r\na: " + b"b" * 500_000, STALL)),
    "a body that never comes": Script((b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", STALL)),
    "broken chunks": Script((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", CLOSE)),
    "interim responses without end": Script((b"HTTP/1.1 100 \r\n\r\n" * 10_000, STALL)),
}  # fmt: skip


WAITED_FOR = {"silence", "a body that never comes", "interim responses without end"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in WAITED_FOR else ()) for name in AWAY],
)
def test_calls_wait_for_a_collector_that_does_not_acknowledge_them(collector, make_sender, name):
    collector.otherwise = AWAY[name]
    sender = make_sender()

    def is_asked() -> bool:
        """Send, and look that this fails: on a busy machine perhaps before the collector has seen it."""
        with pytest.raises(ReceiverAwayError) as raised:
            send(sender)
        assert SECRET not in str(raised.value)
        assert str(raised.value).isprintable()
        return bool(collector.requests)

    wait_until(is_asked, "a request of the collector")
    assert {request.target for request in collector.requests} == {"/v1/traces"}


@pytest.mark.slow
def test_a_response_that_drips_is_given_up(collector, make_sender):
    """Each byte comes in time, so that no timeout of a single read ever passes."""
    dripped = 0

    def drip(_request):
        nonlocal dripped
        dripped += 1
        time.sleep(0.1)  # the pace of the attack; all of it takes ten seconds
        return b"x"

    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"
    collector.otherwise = Script((head, *([drip] * 100), STALL))
    with pytest.raises(ReceiverAwayError, match=r"timed out|in time"):
        send(make_sender())
    assert dripped < 100


def test_a_deadline_that_passes_at_the_very_end_is_none_and_none_is_left(monkeypatch):
    setitimer = signal.setitimer

    def set_late(which, seconds, interval=0.0):
        if not seconds:
            os.kill(os.getpid(), signal.SIGALRM)
        return setitimer(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", set_late)
    before = signal.getsignal(signal.SIGALRM)
    with deadline(1000.0):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize("status", [400, 404 - 1, 413, 422, 500, 501])
def test_what_a_collector_refuses_for_good_is_told_without_its_secrets(
    collector, make_sender, status
):
    words = f"no \x1b[2J {SECRET}".encode()
    head = b"HTTP/1.1 %d %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % (status, words)
    collector.otherwise = Script((head, CLOSE))
    expected = ReceiverAwayError if status == 403 else BatchRefusedError
    with pytest.raises(expected) as raised:
        send(make_sender(TIMEOUT="30"))
    assert str(status) in str(raised.value)
    assert SECRET not in str(raised.value)
    assert str(raised.value).isprintable()


def make_bomb() -> Script:
    return answer(200, gzip.compress(bytes(50_000_000)), [*PROTOBUF, ("content-encoding", "gzip")])


ACKNOWLEDGED = {
    "nothing": (answer(200, b"", PROTOBUF), 0),
    "no content": (answer(204, b"", framing="none"), 0),
    "a response": (answer(200, ExportTraceServiceResponse().SerializeToString(), PROTOBUF), 0),
    "nothing, as a page": (answer(200, b"", [("content-type", "text/html; charset=utf-8")]), 0),
    "JSON": (answer(200, b'{"partialSuccess":{}}'), 0),
    "a body that stops": (Script((b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", CLOSE)), 0),
    "garbage": (answer(200, b"\xff" * 999, PROTOBUF), 0),
    "some left out": (answer(200, left_out(1, "too old"), PROTOBUF), 1),
    "a warning": (answer(200, left_out(0, "\x1b[2J" * 99), PROTOBUF), 0),
    "more left out than were sent": (answer(200, left_out(2**62), PROTOBUF), 2**62),
    "fewer than none": (answer(200, left_out(-1), PROTOBUF), 0),
    "a bomb": (make_bomb, 0),
    "a body of gigabytes": (Script((b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * 200_000, STALL)), 0),
    "a body without end": (Script((b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000, STALL)), 0),
    "chunks without end": (Script((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"3e8\r\n%b\r\n" % (b"x" * 1000) * 200, STALL)), 0),
    "cookies": (answer(200, b"", [*PROTOBUF, ("set-cookie", "a=b"), ("set-cookie", "c=" + "d" * 9000)]), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ACKNOWLEDGED)
def test_what_is_acknowledged_is_so_whatever_else_is_said(collector, make_sender, name):
    response, count = ACKNOWLEDGED[name]
    collector.otherwise = response() if callable(response) else response
    sender = make_sender(TIMEOUT="30")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert send(sender) == count
    assert send(sender) == count
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000, "KB"
    assert [request.header("cookie") for request in collector.requests] == [None, None]


@pytest.mark.parametrize(
    "variables",
    [
        {"HEADERS": f"authorization: Bearer {SECRET}"},
        {"HEADERS": f"x-key={SECRET}%0d%0ax-evil: 1"},
        {"HEADERS": f"x-key=%0a{SECRET}"},
        {"HEADERS": f"x-key=\u2026{SECRET}"},
        {"HEADERS": f"x key={SECRET}"},
        {"HEADERS": f"={SECRET}"},
        {"HEADERS": f"{SECRET}"},
        {"TRACES_HEADERS": f"authorization=Basic {SECRET}=="},
        {"TRACES_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:1/v1/traces"},
        {"TRACES_ENDPOINT": f"http://{SECRET}@127.0.0.1:1/v1/traces"},
        {"TRACES_ENDPOINT": f"http://127.0.0.1:1/v1/traces?api-key={SECRET}&a=b"},
        {"ENDPOINT": f"http://user:{SECRET}@127.0.0.1:1"},
    ],
    ids=str,
)
def test_credentials_are_in_no_line_wherever_they_were_written(
    collector, make_sender, caplog, variables
):
    collector.otherwise = answer(401, b"")
    caplog.set_level(logging.DEBUG, "manage")
    caplog.set_level(logging.DEBUG, "opentelemetry")
    with pytest.raises((ReceiverAwayError, BatchRefusedError)) as raised:
        send(make_sender(**variables))
    assert SECRET not in str(raised.value)
    assert SECRET not in "\n".join(
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("manage", "opentel"))
    )
    assert not any(request.header("x-evil") for request in collector.requests)


def test_secrets_are_found_in_every_part_and_short_texts_are_none():
    secrets = list_secrets(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "a=one%20two%3D,b=x",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "https://user:p%40ssword@h/?key=12345&z=1",
        }
    )
    said = "one two= one%20two%3D user p%40ssword p@ssword key=12345&z=1 12345 x b a reason"
    assert explain(said, secrets).split() == [
        "…",
        "…",
        "…",
        "…",
        "…",
        "…",
        "…",
        "x",
        "b",
        "a",
        "reason",
    ]


TEXTS = [
    "\r\nx-evil: 1",
    "\x1b[2J",
    "\0",
    "\u202e",
    "é" * 10**6,
    "x" * 10**7,
    "\ufffe",
    "",
    " ",
    "💡" * 10**5,
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:9]))
def test_what_a_call_holds_is_an_attribute_of_moderate_length(text):
    names = [each.name for each in fields(CALL) if isinstance(getattr(CALL, each.name), str)]
    changes = dict.fromkeys(
        {*names, "error_type", "agent_id", "upstream_request_id"} - {"created_at"}, text
    )
    maker = SpanMaker("anthropic", Settings.from_env({}).upstream_url, "1.0")
    span = maker.make(text[:100] or "o", replace(CALL, **changes))
    (sent,) = encode_spans([span]).resource_spans[0].scope_spans[0].spans
    assert len(sent.name) <= MAX_TEXT + 5
    assert len(sent.SerializeToString()) < 20 * 4 * MAX_TEXT
    assert "taximeter.request_body" not in {each.key for each in sent.attributes}
