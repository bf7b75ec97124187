"""Costs in databases of an earlier version, which billed every pass and stored no reason."""

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from itertools import count

import pytest

from metering.prices import PriceTable
from recorder.backfill import Backfill
from recorder.open_databases import OpenDatabases
from store import database
from store.traces import schema
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.metering.responses import KINDS, fallback_block, make_body, text_block
from tests.store.earlier import make_earlier

HOUR = "2026-11-20T12"
USED = {"input_tokens": 1_000, "output_tokens": 1}
REFUSED = {"stop_reason": "refusal", "category": "cyber"}


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A call as the earlier version stored it. ``lines`` are pass, model, component, quantity and
    cents; each pass has a prompt of 1,000 tokens."""

    response: bytes | None
    lines: tuple[tuple[int, str, str, int, float | None], ...] = ()
    cost_cents: float | None = None
    model: str | None = "claude-fable-5"
    speed: str | None = None
    status_code: int = 200
    streamed: bool = False
    usage_source: str = "final"


@pytest.fixture
def correct(tmp_path):
    """Stores calls in a database of the earlier version, has a recorder of today take it over, and
    returns cost, line items and hourly sums."""
    path = trace_path(tmp_path, "org")

    def run(*calls):
        with closing(database.open_database(path, make_earlier(schema, 5))) as connection:
            for call in calls:
                _store(connection, call)
        databases = OpenDatabases(tmp_path, RequestPreparer())
        ticks = count()
        work = Backfill(databases, PriceTable, lambda: float(next(ticks)))
        work.begin("org")
        while work.run_step():
            pass
        databases.close_all()
        with TraceDatabase(path) as traces:
            assert list(traces.verify()) == []
        return Corrected(path)

    return run


class Corrected:
    def __init__(self, path):
        self._path = path

    def read(self, sql):
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute(sql).fetchall()

    @property
    def costs(self):
        return [cents for (cents,) in self.read("select cost_cents from usage order by id")]

    @property
    def lines(self):
        return self.read(
            "select model, component, quantity, unbilled_reason, cents from usage_cost order by 1, 2"
        )


def _store(connection, call):
    length = None if call.response is None else len(call.response)
    usage_id = connection.execute(
        "insert into usage (entry_id, created_at, proxy_endpoint_id, slug, model, cost_cents,"
        " status_code, streamed, outcome, usage_source, speed, response_body_length)"
        " values (?, ?, 'pe_1', 'default', ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            f"entry {connection.total_changes}",
            f"{HOUR}:00:00.000Z",
            call.model,
            call.cost_cents,
            call.status_code,
            call.streamed,
            "complete" if call.status_code < 400 else "upstream_error",
            call.usage_source,
            call.speed,
            length,
        ),
    ).lastrowid
    if call.response is not None:
        connection.execute(
            "insert into response_bodies values (?, ?, ?)",
            (usage_id, hashlib.sha256(call.response).digest(), call.response.decode()),
        )
    connection.executemany(
        "insert into usage_cost values (?, ?, ?, ?, ?, ?, 1000, ?, 1, 'then', ?)",
        [
            (usage_id, number, *names, quantity, cents and cents * 10_000 / quantity, cents)
            for number, (*names, quantity, cents) in enumerate(call.lines)
        ],
    )
    connection.execute(
        "insert into usage_hourly values (?, 'pe_1', 'default', ?, 1, ?, ?, 0, 0, 0, 0, 0, ?, 0)"
        " on conflict do update set entries = entries + 1, errors = errors + excluded.errors,"
        " unpriced = unpriced + excluded.unpriced, cost_cents = cost_cents + excluded.cost_cents",
        (
            HOUR,
            call.model or "",
            call.status_code >= 400,
            call.cost_cents is None and call.usage_source != "none",
            call.cost_cents or 0,
        ),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_before_output_that_was_billed_costs_nothing(correct, kind):
    lines = (
        (0, "claude-fable-5", "input", 1_000, 1.0),
        (0, "claude-fable-5", "output", 1, 0.005),
    )
    body = make_body(kind, [], USED, **REFUSED)
    call = Earlier(response=body, lines=lines, cost_cents=1.005, streamed=kind == "stream")
    corrected = correct(call)
    assert corrected.costs == [0]
    assert corrected.lines == [
        ("claude-fable-5", "input", 1_000, "refused_before_output", 0),
        ("claude-fable-5", "output", 1, "refused_before_output", 0),
    ]
    ((entries, cents),) = corrected.read(
        "select sum(entries), round(sum(cost_cents), 9) from usage_hourly"
    )
    assert (entries, cents) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_declined_is_taken_out_of_a_cost(correct, kind):
    declined, took_over = "claude-fable-5", "claude-opus-5"
    passes = [
        {"type": "message", "model": declined, **USED},
        {
            "type": "fallback_message",
            "model": took_over,
            "input_tokens": 1_000,
            "output_tokens": 2_000,
        },
    ]
    body = make_body(
        kind,
        [fallback_block(declined, took_over, "cyber"), text_block()],
        {"input_tokens": 1_000, "output_tokens": 2_000, "iterations": passes},
        model=took_over if kind == "document" else declined,
    )
    lines = (
        (0, declined, "input", 1_000, 1.0),
        (0, declined, "output", 1, 0.005),
        (1, took_over, "input", 1_000, 0.5),
        (1, took_over, "output", 2_000, 5.0),
    )
    call = Earlier(
        response=body,
        lines=lines,
        cost_cents=6.505,
        model=took_over,
        streamed=kind == "stream",
    )
    corrected = correct(call)
    assert corrected.costs == [5.5]
    assert corrected.lines == [
        (declined, "input", 1_000, "declined_hop", 0),
        (declined, "output", 1, "declined_hop", 0),
        (took_over, "input", 1_000, None, 0.5),
        (took_over, "output", 2_000, None, 5.0),
    ]


def test_advice_of_another_model_loses_the_fast_price_of_the_call(correct):
    prompt = {"input_tokens": 1_000, "output_tokens": 0}
    passes = [
        {"type": "advisor_message", "model": "claude-fable-5", **prompt},
        {"type": "message", **prompt},
    ]
    usage = {**prompt, "speed": "fast", "iterations": passes}
    body = make_body("document", [text_block()], usage, model="claude-opus-5")
    lines = (
        (0, "claude-fable-5", "input", 1_000, None),
        (1, "claude-opus-5", "input", 1_000, 1.0),
    )
    call = Earlier(response=body, lines=lines, model="claude-opus-5", speed="fast")
    corrected = correct(call)
    assert corrected.costs == [2.0]
    assert corrected.read("select sum(unpriced) from usage_hourly") == [(0,)]


def test_an_error_of_unknown_cost_costs_nothing(correct):
    body = json.dumps({"type": "error", "error": {"type": "overloaded_error"}}).encode()
    errors = [
        Earlier(response=response, model=None, status_code=529, usage_source="none")
        for response in (body, None)
    ]
    assert correct(*errors).costs == [0, 0]


def test_a_cost_that_the_rules_agree_on_keeps_the_price_of_then(correct):
    body = make_body("document", [text_block()], {"input_tokens": 1_000, "output_tokens": 0})
    lines = ((0, "claude-fable-5", "input", 1_000, 77.0),)
    corrected = correct(Earlier(response=body, lines=lines, cost_cents=77.0))
    assert corrected.costs == [77.0]
    assert corrected.read("select price_version from usage_cost") == [("then",)]


def test_a_cost_of_which_a_count_is_missing_is_not_known(correct):
    """Earlier versions took what was counted for all of it."""
    body = make_body("document", [text_block()], {"output_tokens": 20})
    lines = ((0, "claude-fable-5", "output", 20, 0.1),)
    corrected = correct(Earlier(response=body, lines=lines, cost_cents=0.1))
    assert corrected.costs == [None]
    assert corrected.lines == [
        ("claude-fable-5", "input", 0, None, None),
        ("claude-fable-5", "output", 20, None, 0.1),
    ]
    assert corrected.read("select sum(unpriced) from usage_hourly") == [(1,)]


def test_a_known_cost_stays_where_a_price_is_missing_today(correct):
    body = make_body("document", [text_block()], {**USED, "server_tool_use": {}}, model="gone")
    call = Earlier(
        response=body, lines=((0, "gone", "input", 1, 3.0),), cost_cents=3.0, model="gone"
    )
    corrected = correct(call)
    assert corrected.costs == [3.0]
    assert corrected.lines == [("gone", "input", 1, None, 3.0)]


@pytest.mark.parametrize("response", [None, b"", b'{"type":"message","content":[]}'])
def test_a_cost_stays_where_the_response_is_not_what_was_counted(correct, response):
    lines = ((0, "claude-fable-5", "input", 1_000, 1.0),)
    call = Earlier(response=response, lines=lines, cost_cents=1.0, status_code=529)
    corrected = correct(call)
    assert corrected.costs == [1.0]
    assert corrected.lines == [("claude-fable-5", "input", 1_000, None, 1.0)]
