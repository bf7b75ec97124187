from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from metering.budget_periods import Span
from recorder.calls_in_flight import CallsInFlight
from runtime import clock
from store.control.budgets import Budget
from store.price_file import load_prices
from store.spool import reader
from store.spool.format import Ending
from tests.recorder.streams import begin_stream

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TODAY = Span(NOW.replace(hour=0), NOW.replace(hour=0) + timedelta(days=1))
OURS = Budget(
    id="b",
    organization_id="ours",
    proxy_endpoint_id=None,
    slug=None,
    name=None,
    period="day",
    limit_usd=1.0,
    action="refuse",
    time_zone="UTC",
    created_at="2026-11-01T00:00:00.000Z",
)


@pytest.fixture
def begin(run):
    def begin(entry_id, input_tokens, *, owner="ours", endpoint="ci", at=NOW, **more):
        created_at = clock.format_ms(at)
        return begin_stream(run, entry_id, owner, endpoint, created_at, input_tokens, **more)

    return begin


@pytest.fixture
def calls(tmp_path):
    return CallsInFlight(tmp_path / "spool", load_prices)


@pytest.fixture
def spent(calls):
    def spent(budget=OURS, span=TODAY):
        calls.refresh({"ours"})
        return calls.find_usd(budget, span)

    return spent


def test_a_call_in_flight_has_cost_its_input(begin, spent):
    begin("a", 25_000, text="much text " * 200)
    assert spent() == 0.10  # and nothing is guessed of its output


def test_a_call_whose_upstream_has_not_responded_has_cost_nothing_yet(begin, spent):
    begin("a", None)
    assert spent() == 0


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_only_the_beginning_of_a_response_is_read(begin, spent, encoding):
    file = begin("a", 25_000, encoding=encoding, body=b"x" * 1_000_000)
    for _ in range(10):
        file.write_chunk(b"y" * 10_000, 3.0)
    assert spent() == 0.10


def test_what_a_subscription_covers_is_no_spend(begin, spent):
    begin("a", 25_000, kind="token")
    assert spent() == 0


def test_calls_count_for_their_endpoint_organisation_and_period(begin, spent):
    begin("a", 25_000)
    begin("b", 25_000, endpoint="desk")
    begin("c", 25_000, at=NOW - timedelta(days=1))
    begin("d", 25_000, owner="theirs")
    assert spent() == 0.20
    assert spent(replace(OURS, proxy_endpoint_id="desk")) == 0.10
    assert spent(replace(OURS, organization_id="theirs")) == 0  # which was not asked for


def test_a_call_that_has_ended_is_the_recorders(begin, spent):
    file = begin("a", 25_000)
    assert spent() == 0.10
    file.finish(Ending(outcome="complete"), 5.0)
    assert spent() == 0


def test_each_call_is_read_once(begin, spent, monkeypatch):
    begin("a", 25_000)
    spent()
    monkeypatch.setattr(reader, "read_beginning", lambda *_: pytest.fail("read again"))
    assert spent() == 0.10


def test_a_file_that_is_none_of_ours_counts_for_nothing(begin, spent, run):
    begin("a", 25_000)
    for name, content in (("b", b""), ("c", b"H"), ("d", b"not a spool file, but long enough")):
        (run.path / f"{name}~ours.open").write_bytes(content)
    assert spent() == 0.10
