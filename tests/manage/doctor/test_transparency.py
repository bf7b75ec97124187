"""The trial that nothing is changed on the way, and what it finds where something is."""

import http.client
import json
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from manage.doctor.echo import EchoUpstream, Response, Seen
from manage.doctor.transparency import (
    CLIENTS,
    TARGET,
    compare_request,
    compare_response,
    compare_spooled,
    describe_changes,
    judge_stream,
    make_request,
    make_response,
    make_stream,
    send_stream,
)
from manage.doctor.trial_proxy import TrialProxy

HEADERS = (("X-Api-Key", "k"), ("accept", "a"), ("accept", "b"))
SEEN = Seen(
    method="POST",
    target=TARGET,
    headers=[("host", "upstream"), *HEADERS, ("Content-Length", "4")],
    body=b"body",
)


@pytest.mark.slow
def test_a_proxy_with_the_settings_of_the_service_changes_nothing(run, monkeypatch, tmp_path):
    monkeypatch.setenv("TAXIMETER_DISK_RESERVE", "1000000TB")  # another check
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", "http://127.0.0.1:1")  # and another
    result = run("doctor", "--echo", "--json")
    checks = [
        (each["check"], each["verdict"])
        for each in json.loads(result.stdout)["checks"]
        if each["check"] in ("request", "response", "streaming", "recording", "echo")
    ]
    both = [("request", "ok"), ("response", "ok")] * len(CLIENTS)
    assert checks == [*both, ("streaming", "ok"), ("recording", "ok")], result.stdout


def test_a_request_that_came_as_it_was_sent_is_fine():
    finding = compare_request("a client", HEADERS, b"body", SEEN)
    assert finding.verdict == "ok"
    assert "3 headers" not in finding.message
    assert "4 headers came unchanged" in finding.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"body": b"body "}, "4 bytes"),
        ({"target": "/v1/messages"}, "became POST /v1/messages"),
        ({"method": "PUT"}, "became PUT"),
        ({"headers": SEEN.headers[2:]}, "missing X-Api-Key"),
        ({"headers": [*SEEN.headers, ("via", "1.1 x")]}, "added via"),
        (
            {"headers": [("x-api-key", "k"), *SEEN.headers[2:]]},
            "missing X-Api-Key; added x-api-key",
        ),
        (
            {"headers": [SEEN.headers[1], ("accept", "a, b"), SEEN.headers[-1]]},
            "changed accept",
        ),
    ],
)
def test_each_change_of_a_request_is_found(change, words):
    finding = compare_request("a client", HEADERS, b"body", replace(SEEN, **change))
    assert finding.verdict == "wrong"
    assert words in finding.message
    assert finding.advice


def test_headers_in_another_order_are_found():
    assert describe_changes(HEADERS, HEADERS[::-1]) != ""
    assert (
        describe_changes((("a", "1"), ("b", "2")), (("b", "2"), ("a", "1"))) == "in another order"
    )


def test_each_change_of_a_response_is_found():
    response = make_response()
    headers = [*response.headers, ("content-length", str(len(response.body)))]
    assert compare_response("x", response, 200, headers, response.body).verdict == "ok"
    for status, got, body, words in (
        (502, headers, b"\x1bbad", "became 502: ?bad"),
        (200, headers, response.body[:-1], "became"),
        (200, [each for each in headers if each[0] != "set-cookie"], response.body, "set-cookie"),
        (200, [*headers, ("server", "x")], response.body, "added server"),
    ):
        finding = compare_response("x", response, status, got, body)
        assert finding.verdict == "wrong"
        assert words in finding.message


def test_a_request_is_one_that_reading_and_writing_would_change():
    body = make_request()
    read = json.loads(body)
    assert json.dumps(read, ensure_ascii=False).encode() != body
    assert make_request() != body


def test_a_stream_that_is_held_is_found_and_expected_where_it_is_a_setting():
    stream = make_stream()
    body = b"".join(stream.events)
    delays = [0.001] * len(stream.events)
    assert judge_stream(stream, body, delays, is_buffered=False).verdict == "ok"
    stream.was_held = True
    assert judge_stream(stream, body, delays, is_buffered=False).verdict == "wrong"
    assert judge_stream(stream, body, delays, is_buffered=True).verdict == "note"
    assert judge_stream(stream, body + b"\n", delays, is_buffered=True).verdict == "wrong"


def test_the_upstream_sends_an_event_only_when_the_one_before_has_come(tmp_path):
    with EchoUpstream() as upstream:
        stream = upstream.response = make_stream(patience_s=30)
        address = urlsplit(upstream.url)
        directly = TrialProxy(address.hostname or "", address.port or 0, tmp_path)
        body, delays_s = send_stream(directly, HEADERS, b"{}", stream)
        assert (body, stream.was_held) == (b"".join(stream.events), False)
        assert len(delays_s) == len(stream.events)
        held = upstream.response = Response(events=[b"a", b"b"], patience_s=0)
        with closing(http.client.HTTPConnection(address.netloc, timeout=30)) as connection:
            connection.request("POST", "/", b"{}")
            assert connection.getresponse().read() == b"ab"
        assert held.was_held
        assert upstream.seen[-1].body == b"{}"


def test_what_is_recorded_is_compared_with_what_went():
    assert compare_spooled([(b"a", b"b")], [(b"a", b"b")]).verdict == "ok"
    for spooled in ([], [(b"a", b"")], [(None, b"b")]):
        assert compare_spooled([(b"a", b"b")], spooled).verdict == "wrong"


def test_a_proxy_that_does_not_start_is_quoted(run, monkeypatch):
    monkeypatch.setattr("manage.doctor.trial_proxy.sys.executable", "/bin/false")
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", "http://127.0.0.1:1")  # another check
    result = run("doctor", "--echo", "--json")
    (echo,) = [each for each in json.loads(result.stdout)["checks"] if each["check"] == "echo"]
    assert echo["verdict"] == "wrong"
    assert "does not start: it printed nothing" in echo["message"]
