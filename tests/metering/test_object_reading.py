import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from metering.object_pricing import price_object
from metering.object_reading import make_session, read_objects, set_counts
from metering.prices import PriceTable
from metering.token_counts import TokenCounts
from wire.managed_objects import find_session_usage

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
PRICES = PriceTable()
SESSION: dict[str, Any] = {
    "type": "session",
    "id": "sesn_1",
    "status": "idle",
    "created_at": "2026-11-20T10:00:00Z",
    "agent": {"id": "agent_1", "model": {"id": "claude-opus-5", "speed": "standard"}},
    "usage": {
        "input_tokens": 100_000,
        "output_tokens": 20_000,
        "cache_read_input_tokens": 1_000_000,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 40_000,
            "ephemeral_1h_input_tokens": 10_000,
        },
        "server_tool_use": {"web_search_requests": 3},
        "active_seconds": 900.0,
        "list_cost": {"amount": "190", "currency": "USD"},
    },
}
DREAM: dict[str, Any] = {
    "type": "dream",
    "id": "drm_1",
    "status": "completed",
    "created_at": "2026-11-20T10:00:00Z",
    "ended_at": "2026-11-20T11:00:00Z",
    "model": {"id": "claude-opus-5", "speed": "standard"},
    "session_id": "sesn_2",
    "usage": {
        "input_tokens": 1_000,
        "output_tokens": 100,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    },
}


def read(kind, document):
    found = read_objects(kind, json.dumps(document).encode())
    return [replace(each, cost_cents=price_object(each, PRICES, AT)) for each in found]


def change(document, usage=None, **fields):
    return document | {"usage": document["usage"] | (usage or {})} | fields


def test_a_session_costs_its_tokens_searches_and_hours():
    (session,) = read("session", SESSION)
    assert (session.object_id, session.kind, session.status) == ("sesn_1", "session", "idle")
    assert (session.created_at, session.ended_at) == ("2026-11-20T10:00:00.000Z", None)
    assert session.tokens == TokenCounts(
        input_tokens=100_000,
        output_tokens=20_000,
        cache_creation_input_tokens=50_000,
        cache_read_input_tokens=1_000_000,
    )
    assert (session.cache_write_1h_tokens, session.web_search_requests) == (10_000, 3)
    # 0.1 x 5 + 1 x 0.50 + 0.04 x 6.25 + 0.01 x 10 + 0.02 x 25 + 3 x 0.01 + 0.25 h x 0.08 USD.
    assert session.cost_cents is not None
    assert round(session.cost_cents, 9) == Decimal(190)
    assert session.list_cost_cents == Decimal(190)


def test_a_dream_costs_its_tokens():
    (dream,) = read("dream", DREAM)
    assert (dream.object_id, dream.session_id, dream.status) == ("drm_1", "sesn_2", "completed")
    assert dream.ended_at == "2026-11-20T11:00:00.000Z"
    assert (dream.cost_cents, dream.list_cost_cents) == (Decimal("0.75"), None)
    assert dream.active_seconds is None


def test_a_list_has_several():
    found = read("session", {"data": [SESSION, {"type": "agent"}, 7, SESSION | {"id": "sesn_2"}]})
    assert [each.object_id for each in found] == ["sesn_1", "sesn_2"]


def test_fast_mode_has_its_price():
    fast = SESSION["agent"] | {"model": {"id": "claude-opus-5", "speed": "fast"}}
    (session,) = read("session", SESSION | {"agent": fast})
    assert session.cost_cents is not None
    assert session.cost_cents > 190


@pytest.mark.parametrize(
    "document",
    [
        change(SESSION, agent=SESSION["agent"] | {"multiagent": {"type": "coordinator"}}),
        change(SESSION, agent={"model": {"id": "a model without a price"}}),
        change(SESSION, agent=None),
        change(SESSION, {"output_tokens": None}),
    ],
)
def test_a_cost_that_is_not_known_is_none(document):
    (session,) = read("session", document)
    assert session.cost_cents is None
    assert session.list_cost_cents == Decimal(190)


@pytest.mark.parametrize(
    "amount",
    [
        None,
        [],
        {"amount": "190", "currency": "EUR"},
        {"amount": "x", "currency": "USD"},
        {"amount": "NaN", "currency": "USD"},
        {"amount": "-1", "currency": "USD"},
    ],
)
def test_a_list_cost_that_is_none_is_none(amount):
    assert read("session", change(SESSION, {"list_cost": amount}))[0].list_cost_cents is None


@pytest.mark.parametrize("seconds", [None, True, -1, "900", 1e300, []])
def test_seconds_that_are_none_are_none(seconds):
    assert read("session", change(SESSION, {"active_seconds": seconds}))[0].active_seconds is None


@pytest.mark.parametrize(
    "document", [[], {}, {"data": {}}, SESSION | {"usage": None}, SESSION | {"id": 7}, DREAM]
)
def test_what_is_no_session_is_passed_over(document):
    assert read("session", document) == []


def test_an_instant_that_is_none_is_none():
    for text in ("yesterday", "2026-11-20T10:00:00", 7):
        assert read("session", SESSION | {"created_at": text})[0].created_at is None


def test_instants_are_written_as_those_of_entries():
    (session,) = read("session", SESSION | {"created_at": "2026-11-20T10:00:00.1234+02:00"})
    assert session.created_at == "2026-11-20T08:00:00.123Z"


def make_event(at, seconds):
    usage = SESSION["usage"] | {"active_seconds": seconds}
    return {"type": "session.usage", "id": "e", "processed_at": at, "usage": usage}


EVENTS: list[Any] = [
    make_event("2026-11-20T10:00:01Z", 10),
    make_event("2026-11-20T12:00:03+02:00", 30),
    make_event("2026-11-20T10:00:02Z", 20),
    {"type": "session.status_idle", "processed_at": "2026-11-20T10:00:09Z", "usage": {}},
    make_event("yesterday", 99),
    7,
]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_of_the_events_of_a_session_the_latest_counts_are_read(is_streamed):
    texts = [json.dumps(each).encode() for each in EVENTS]
    stream = b"".join(b"event: message\ndata: %b\n\n" % text for text in texts) + b'data: {"ty'
    found = find_session_usage(
        stream if is_streamed else json.dumps({"data": EVENTS, "next_page": None}).encode()
    )
    assert found is not None
    at, counts = found
    assert at == "2026-11-20T10:00:03.000Z"
    session = set_counts(make_session("sesn_1"), counts)
    assert (session.active_seconds, session.list_cost_cents) == (30.0, Decimal(190))
    assert session.tokens == read("session", SESSION)[0].tokens
    assert price_object(session, PRICES, AT) is None, "events name no model"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"data":[{"type":"session.usage"}]}', b"\xff"]
)
def test_what_has_no_counts_of_a_session_is_none(body):
    assert find_session_usage(body) is None
