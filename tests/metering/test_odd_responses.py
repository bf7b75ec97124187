"""Responses that upstream should never send, and what they cost.

Worked out by hand as in ``test_billed_passes``. The counts are 1000 and 10 tokens unless a line says
otherwise: 1000 x 10 + 10 x 50 = 10,500, which is 1.05 cents for claude-fable-5."""

import json
from decimal import Decimal
from typing import Any

import pytest

from metering.prices import PriceTable
from metering.pricing import price_call
from tests.metering.responses import (
    KINDS,
    fallback_block,
    make_body,
    make_call_of,
    read,
    text_block,
)

FABLE, OPUS, OPUS_5, HAIKU = (
    "claude-fable-5",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-haiku-5-5",
)
PRICES = PriceTable()
STOP = {"type": "message_stop"}
CYBER = {"stop_reason": "refusal", "category": "cyber"}


def counts(input_tokens: object = 1000, output_tokens: object = 10, **more: Any) -> dict[str, Any]:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, **more}


def a_pass(type: str, model: str | None, *tokens: int) -> dict[str, Any]:
    return {"type": type, "model": model, **counts(*tokens)}


def start(usage: object, model: str = FABLE) -> dict[str, Any]:
    return {"type": "message_start", "message": {"model": model, "usage": usage}}


def delta(usage: object, stop_reason: str | None = "end_turn", category: str | None = None):
    stop = {"stop_reason": stop_reason, "stop_details": {"category": category}}
    return {"type": "message_delta", "delta": stop, "usage": usage}


def block(type: str, **fields: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": type, **fields}}


def part(type: str, **fields: object) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": type, **fields}}


def cost_of(kind: Any, body: bytes) -> Decimal | None:
    return price_call(make_call_of(read(kind, body)), PRICES)[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("content", "usage", "options", "cents"),
    [
        # A pass of a type that is not known yet is billed: 500 x 5 + 50 x 25 = 3,750 more.
        (
            [],
            {"iterations": [a_pass("verifier", OPUS, 500, 50), a_pass("message", None)]},
            {},
            "1.425",
        ),
        # A chain that comes back to its first model, which is free the first time only.
        (
            [fallback_block(FABLE, OPUS, "cyber"), fallback_block(OPUS, FABLE, "cyber")],
            {
                "iterations": [
                    a_pass("message", FABLE, 100, 0),
                    a_pass("message", OPUS, 200, 0),
                    a_pass("fallback_message", FABLE),
                ]
            },
            {},
            "1.05",
        ),
        # The same where the second declined for bio: 200 x 5 more.
        (
            [fallback_block(FABLE, OPUS, "cyber"), fallback_block(OPUS, FABLE, "bio")],
            {
                "iterations": [
                    a_pass("message", FABLE, 100, 0),
                    a_pass("message", OPUS, 200, 0),
                    a_pass("fallback_message", FABLE),
                ]
            },
            {},
            "1.15",
        ),
        # A model that hands over to itself.
        (
            [fallback_block(FABLE, FABLE, "cyber")],
            {"iterations": [a_pass("message", FABLE, 100, 0), a_pass("fallback_message", FABLE)]},
            {},
            "1.05",
        ),
        # A fallback that says nothing of its models or its reason.
        (
            [{"type": "fallback", "trigger": None}],
            {"iterations": [a_pass("message", OPUS, 535, 0), a_pass("fallback_message", FABLE)]},
            {},
            "1.05",
        ),
        # Lists of passes that hold none, or also something else.
        ([], {"iterations": []}, {}, "1.05"),
        ([], {"iterations": {"type": "message"}}, {}, "1.05"),
        ([], {"iterations": [7, "x", None, {}]}, {}, "1.05"),
        ([], {"iterations": [None, a_pass("message", None)]}, {}, "1.05"),
        # Passes that sum up to less than the call: upstream says to sum the passes. 500 x 10 + 5 x 50.
        ([], {"iterations": [a_pass("message", None, 500, 5)]}, {}, "0.525"),
        # Fast is not offered in batches: half of 1000 x 5 + 10 x 25.
        ([], {"service_tier": "batch", "speed": "fast"}, {"model": OPUS_5}, "0.2625"),
        # What a tier or speed that is not known costs, nobody can say but the list.
        ([], {"service_tier": "flex", "speed": "ludicrous"}, {"model": OPUS_5}, "0.525"),
        # 1.1 on fast: 1.1 x (1000 x 10 + 10 x 50).
        ([], {"inference_geo": "us", "speed": "fast"}, {"model": OPUS_5}, "1.155"),
        # A split without a total: 100 x 12.5 + 200 x 20 = 5,250 more.
        (
            [],
            {
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 100,
                    "ephemeral_1h_input_tokens": 200,
                }
            },
            {},
            "1.575",
        ),
        # Searches that are no number, and none where there should be an object.
        ([], {"server_tool_use": {"web_search_requests": "2"}}, {}, "1.05"),
        ([], {"server_tool_use": [2]}, {}, "1.05"),
        # Empty blocks of every kind are no output, and a line end is.
        ([{"type": "text", "text": "", "citations": []}], {}, CYBER, "0"),
        ([{"type": "thinking", "thinking": "", "signature": ""}], {}, CYBER, "0"),
        ([text_block("\n")], {}, CYBER, "1.05"),
        # A tool that ran upstream is output: the answer and a search are billed.
        (
            [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}],
            {"server_tool_use": {"web_search_requests": 1}},
            CYBER,
            "2.05",
        ),
        # A category that is not known yet is not billed.
        ([], {}, CYBER | {"category": "new"}, "0"),
    ],
)
def test_an_odd_response_costs_what_is_billed_of_it(kind, content, usage, options, cents):
    answer = [] if options.get("stop_reason") else [text_block()]
    body = make_body(kind, [*content, *answer], counts(**usage), **options)
    assert cost_of(kind, body) == Decimal(cents)


@pytest.mark.parametrize(
    ("events", "cents"),
    [
        ([start(counts()), delta(None), STOP], "1.05"),
        ([start(counts()), delta(None), delta({"output_tokens": 100}, None), STOP], "1.5"),
        ([start(counts()), start(counts()), delta({"output_tokens": 10}), STOP], "1.05"),
        ([start(counts()), delta({"output_tokens": 100}), start(counts()), STOP], "1.5"),
        # 1000 x 5 + 10 x 25: the last start names the model
        ([start(counts()), start(counts(), OPUS), delta({"output_tokens": 10}), STOP], "0.525"),
        ([start(counts(1000, 500)), delta({"output_tokens": 0}), STOP], "1"),
        ([start(counts(1000.0, 1)), delta({"output_tokens": 1e1}), STOP], "1.05"),
        # refusals after nothing but a signature, a citation, or the beginning of a tool's input
        (
            [
                start(counts()),
                block("thinking", thinking="", signature=""),
                part("signature_delta", signature="abc"),
                delta(counts(), "refusal", "cyber"),
            ],
            "1.05",
        ),
        (
            [
                start(counts()),
                block("text", text=""),
                part("citations_delta", citation={"type": "char_location"}),
                delta(counts(), "refusal", "cyber"),
            ],
            "1.05",
        ),
        (
            [
                start(counts()),
                block("tool_use", id="", name="", input={}),
                part("input_json_delta", partial_json='{"a'),
                delta(counts(), "refusal", "cyber"),
            ],
            "1.05",
        ),
        # a refusal, and then counts alone: 1000 x 10, as bio is billed for input
        ([start(counts()), delta(None, "refusal", "bio"), delta(counts(), None), STOP], "1"),
    ],
)
def test_an_odd_stream_costs_what_is_billed_of_it(events, cents):
    body = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events)
    assert cost_of("stream", body) == Decimal(cents)
