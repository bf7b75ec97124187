"""The comparison of the running service with the real upstream: both are played here."""

import ssl
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from manage.doctor.live_check import check_live
from runtime import clock
from runtime.settings import Settings
from tests.upstream import Upstream, answer, refusing_address

KEY = {"ANTHROPIC_API_KEY": "geheim"}
COUNTED = b'{"input_tokens":17}'


@pytest.fixture
def upstream():
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def front():
    with Upstream() as front:
        yield front


def look(upstream_url, front_url, environ=KEY, slug="team"):
    settings = Settings.from_env(
        {
            "TAXIMETER_UPSTREAM_URL": upstream_url,
            "TAXIMETER_LISTEN": front_url.removeprefix("http://"),
        }
    )
    return list(check_live(settings, slug, environ, ssl.create_default_context()))


def test_the_same_response_on_both_ways_is_fine(upstream, front):
    upstream.otherwise = front.otherwise = answer(200, COUNTED)
    (finding,) = look(upstream.url, front.url)
    assert (finding.check, finding.verdict) == ("live", "ok")
    (direct,), (through,) = upstream.requests, front.requests
    assert (direct.target, through.target) == (
        "/v1/messages/count_tokens",
        "/proxy/team/v1/messages/count_tokens",
    )
    assert direct.body == through.body
    assert direct.header("x-api-key") == through.header("x-api-key") == "geheim"
    assert "geheim" not in str(finding)


@pytest.mark.parametrize(
    ("direct", "through", "verdict", "words"),
    [
        (answer(200, COUNTED), answer(404, b"{}"), "wrong", "404 through team"),
        (answer(200, COUNTED), answer(200, b'{"input_tokens":18}'), "wrong", "18} through"),
        (answer(401, b"{}"), answer(401, b"{}"), "note", "401 both"),
        (
            answer(200, COUNTED, (("request-id", "req_1"),)),
            answer(200, COUNTED),
            "wrong",
            "missing through team: request-id",
        ),
    ],
)
def test_what_differs_is_named(upstream, front, direct, through, verdict, words):
    upstream.otherwise, front.otherwise = direct, through
    (finding,) = look(upstream.url, front.url)
    assert finding.verdict == verdict
    assert words in finding.message
    assert finding.advice


def test_a_side_that_does_not_respond_is_named(upstream, front):
    upstream.otherwise = answer(200, COUNTED)
    with refusing_address() as nobody:
        assert nobody in look(nobody, front.url)[0].message
        assert nobody in look(upstream.url, nobody)[0].message


def test_nothing_is_sent_without_a_key(upstream, front):
    (finding,) = look(upstream.url, front.url, {"ANTHROPIC_API_KEY": " "})
    assert finding.verdict == "wrong"
    assert "ANTHROPIC_API_KEY" in (finding.advice or "")
    assert upstream.requests == front.requests == []


@pytest.mark.parametrize(("seconds", "verdict"), [(0, "ok"), (300, "wrong"), (-300, "wrong")])
def test_the_clock_is_compared_with_upstreams(upstream, front, seconds, verdict, monkeypatch):
    theirs = datetime(2026, 11, 22, 12, tzinfo=UTC)
    date = (("date", format_datetime(theirs, usegmt=True)),)
    upstream.otherwise = front.otherwise = answer(200, COUNTED, date)
    ours = datetime.fromtimestamp(theirs.timestamp() + seconds, UTC)
    monkeypatch.setattr(clock, "now", lambda: ours)
    _, finding = look(upstream.url, front.url)
    assert (finding.check, finding.verdict) == ("clock", verdict)
