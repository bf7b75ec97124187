"""Costs worked out by hand from list prices, for each way in which upstream bills.

The prices are those of claude-opus-5, in USD per million tokens: input 5, output 25, cache reads 0.50, cache
writes 6.25 for five minutes and 10 for an hour; 10 USD for a thousand searches, 0.08 USD for an hour in which
a managed session runs. A cent is 10,000 of a millionth of a dollar: 1,000 tokens of input are 0.5 cents.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from metering.batch_results import make_result_entry
from metering.object_pricing import price_object
from metering.object_reading import read_objects, set_counts
from metering.prices import PriceTable
from recorder.record import make_entry
from recorder.requests import RequestReader
from tests.metering.responses import event
from tests.recorder.test_record import DOCUMENT, STREAM, exchange
from wire.batch_results import parse_result
from wire.managed_objects import find_session_usage

MODEL = "claude-opus-5"
PRICES = PriceTable()
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
NUMBERS = count(1)


def record(request, body, response=DOCUMENT, **head):
    spooled = exchange(body, response, request=json.dumps(request).encode(), head=head)
    return make_entry(spooled, PRICES, RequestReader())


def list_cents(entry):
    return {item.component: item.cents for item in entry.cost_items}


# -- a message thread -----------------------------------------------------------------------------


def turn(thread, messages, usage, *, system=None):
    """Record a call of a thread, whose response is a stream."""
    body = (
        event(
            "message_start",
            message={
                "id": f"msg_{next(NUMBERS)}",
                "model": MODEL,
                "usage": usage | {"output_tokens": 1},
            },
        )
        + event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        + event("message_stop")
    )
    request = {"model": MODEL, "max_tokens": 4_096, "thread": thread, "messages": messages}
    if system:
        request["system"] = system
    return record(request, body, STREAM)


def question(text):
    return {"role": "user", "content": text}


SYSTEM = [{"type": "text", "text": "You count ships.", "cache_control": {"type": "ephemeral"}}]


def test_a_thread_that_writes_reads_and_forks():
    """A continue sends little and is billed for the whole conversation, most of it as cache reads."""
    created = turn(
        {"type": "create"},
        [question("How many?")],
        {
            "input_tokens": 20,
            "cache_creation_input_tokens": 12_000,
            "cache_read_input_tokens": 0,
            "output_tokens": 300,
        },
        system=SYSTEM,
    )
    # input 20 x 5 = 100; write 12,000 x 6.25 = 75,000; output 300 x 25 = 7,500: 82,600 / 10,000 cents.
    assert created.cost_cents == Decimal("8.26")

    continued = turn(
        {"type": "continue", "previous_message_id": created.message_id},
        [question("And boats?")],
        {
            "input_tokens": 15,
            "cache_creation_input_tokens": 320,
            "cache_read_input_tokens": 12_000,
            "output_tokens": 200,
        },
    )
    # input 15 x 5 = 75; write 320 x 6.25 = 2,000; read 12,000 x 0.50 = 6,000; output 200 x 25 = 5,000.
    assert continued.cost_cents == Decimal("1.3075")
    assert (continued.thread, continued.thread_previous_id) == ("continue", created.message_id)
    assert continued.message_count == 1, "what was sent, and not what was billed"

    forked = turn(
        {"type": "create"},
        [question("How many?"), {"role": "assistant", "content": "Three."}, question("And rafts?")],
        {
            "input_tokens": 10,
            "cache_creation_input_tokens": 400,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 400},
            "cache_read_input_tokens": 12_000,
            "output_tokens": 100,
        },
        system=SYSTEM,
    )
    # input 10 x 5 = 50; write for an hour 400 x 10 = 4,000; read 6,000; output 100 x 25 = 2,500.
    assert forked.cost_cents == Decimal("1.255")
    assert list_cents(forked) == {
        "input": Decimal("0.005"),
        "cache_write_1h": Decimal("0.4"),
        "cache_read": Decimal("0.6"),
        "output": Decimal("0.25"),
    }
    # 8.26 + 1.3075 + 1.255, and with full prices for reads it would have been 10.8 more.
    total = sum(each.cost_cents for each in (created, continued, forked))
    assert total == Decimal("10.8225")


def test_a_continue_that_upstream_refuses_costs_nothing():
    error = {"type": "error", "error": {"type": "not_found_error", "message": "thread expired"}}
    request = {
        "model": MODEL,
        "messages": [question("And boats?")],
        "thread": {"type": "continue", "previous_message_id": "msg_1"},
    }
    response = replace(DOCUMENT, status_code=404)
    entry = record(request, json.dumps(error).encode(), response)
    assert (entry.outcome, entry.cost_cents) == ("upstream_error", Decimal(0))


# -- other interfaces -----------------------------------------------------------------------------

USAGE = {
    "input_tokens": 4_000,
    "output_tokens": 600,
    "cache_creation_input_tokens": 1_000,
    "cache_read_input_tokens": 10_000,
    "server_tool_use": {"web_search_requests": 2},
}


@pytest.mark.parametrize("service_tier", [None, "batch", "standard"])
def test_a_result_of_a_batch_whatever_its_service_tier_says(service_tier):
    message = {
        "type": "message",
        "id": "msg_1",
        "model": MODEL,
        "content": [{"type": "text", "text": "Three."}],
        "stop_reason": "end_turn",
        "usage": USAGE | {"service_tier": service_tier},
    }
    line = {"custom_id": "one", "result": {"type": "succeeded", "message": message}}
    result = parse_result(json.dumps(line).encode())
    assert result is not None
    entry = make_result_entry(
        result,
        "msgbatch_1",
        PRICES,
        created_at="2026-11-20T10:00:00.000Z",
        proxy_endpoint_id="endpoint",
        slug="default",
    )
    # Half of 4,000 x 5 = 20,000; of 1,000 x 6.25 = 6,250; of 10,000 x 0.50 = 5,000; of 600 x 25 = 15,000:
    # 23,125 of a millionth of a dollar, 2.3125 cents. Two searches at 1 cent each are not halved.
    assert entry.cost_cents == Decimal("4.3125")
    assert list_cents(entry)["web_search"] == Decimal(2)
    assert (entry.product, entry.service_tier) == ("batch", service_tier)


def test_a_chat_completion():
    """Nothing is cached there, so all of the prompt is input."""
    completion = {
        "id": "chatcmpl_1",
        "model": MODEL,
        "choices": [{"message": {"role": "assistant", "content": "3"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12_000, "completion_tokens": 40, "total_tokens": 12_040},
    }
    request = {"model": MODEL, "messages": [question("How many?")]}
    entry = record(request, json.dumps(completion).encode(), record="chat_completions")
    # 12,000 x 5 = 60,000; 40 x 25 = 1,000: 61,000 / 10,000 cents.
    assert entry.cost_cents == Decimal("6.1")
    assert list_cents(entry) == {"input": Decimal(6), "output": Decimal("0.1")}


# -- what counts all that it has used -------------------------------------------------------------

SESSION: dict[str, Any] = {
    "type": "session",
    "id": "sesn_1",
    "created_at": "2026-11-20T10:00:00Z",
    "agent": {"id": "agent_1", "model": {"id": MODEL, "speed": "standard"}},
    "usage": USAGE
    | {"active_seconds": 450, "list_cost": {"amount": "6", "currency": "USD"}},
}  # fmt: skip


def read_one(kind, document):
    (found,) = read_objects(kind, json.dumps(document).encode())
    return found


def test_a_managed_session_with_the_time_in_which_it_ran():
    session = read_one("session", SESSION)
    # 20,000 + 6,250 + 5,000 + 15,000 as above, without a half: 4.625 cents. Two searches: 2 cents.
    # 450 seconds are an eighth of an hour, of 8 cents: 1 cent.
    assert price_object(session, PRICES, AT) == Decimal("7.625")
    assert session.list_cost_cents == Decimal(6), "as stated, whatever ours is"

    events = {
        "data": [
            {
                "type": "session.usage",
                "processed_at": "2026-11-20T11:00:00Z",
                "usage": SESSION["usage"] | {"active_seconds": 900, "output_tokens": 1_000},
            }
        ]
    }
    found = find_session_usage(json.dumps(events).encode())
    assert found is not None
    # Counts are cumulative: 400 x 25 = 10,000 more for the output, 1 cent; and 1 cent for the time.
    assert price_object(set_counts(session, found[1]), PRICES, AT) == Decimal("9.625")


def test_a_dream():
    dream = read_one(
        "dream",
        {
            "type": "dream",
            "id": "drm_1",
            "created_at": "2026-11-20T10:00:00Z",
            "model": {"id": MODEL, "speed": "standard"},
            "usage": {
                "input_tokens": 50_000,
                "output_tokens": 2_000,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 30_000,
            },
        },
    )
    # 50,000 x 5 = 250,000; 2,000 x 25 = 50,000; 30,000 x 0.50 = 15,000: 315,000 / 10,000 cents. Its time is
    # that of the session which it runs in.
    assert price_object(dream, PRICES, AT) == Decimal("31.5")
