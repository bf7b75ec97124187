"""The fields of a response change its cost where the table of decisions says so."""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from metering.billed_passes import make_call
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.usage import read_usage
from tests.lazily import import_lazily
from tests.wire.decisions import load_decisions

sdk_fields = import_lazily("tests.wire.sdk_fields")
COSTING = load_decisions()["response_field"].list_names("cost")
COUNTS = [path for path in COSTING if path.endswith(("_tokens", "_requests")) and "=" not in path]
PRICES = PriceTable()
NOW = datetime(2026, 11, 21, tzinfo=UTC)


PASS = {
    "type": "message",
    "model": "claude-opus-5-5",
    "input_tokens": 10,
    "output_tokens": 20,
    "cache_creation_input_tokens": 3_000,
    "cache_read_input_tokens": 40,
    "cache_creation": {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 2_000},
}


def list_messages() -> Iterator[dict[str, Any]]:
    """Yield messages that between them use each count: alone, without the total of the cache writes
    (their split is the total then), and with a list of passes."""
    usage = {name: value for name, value in PASS.items() if name not in ("type", "model")}
    without_total = {k: v for k, v in PASS.items() if k != "cache_creation_input_tokens"}
    for counts in (
        usage,
        {k: v for k, v in without_total.items() if k not in ("type", "model")},
        usage | {"iterations": [PASS]},
        usage | {"iterations": [without_total]},
    ):
        yield {
            "type": "message",
            "model": PASS["model"],
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Yes."}],
            "usage": deepcopy(counts),
        }


def compute_cost(message: dict[str, Any]) -> Decimal | None:
    body = json.dumps(message).encode()
    usage = read_usage(200, "application/json", body, is_complete=True)
    call = make_call(usage, created_at=NOW, outcome="complete", status_code=200)
    return price_call(call, PRICES)[1]


def find_parent(message: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the object that holds this field, which is made where it is missing, and its name there."""
    *places, name = path.split(".")
    target = message
    for place in places:
        key = place.removesuffix("[]")
        target = target.setdefault(key, [{}] if place.endswith("[]") else {})
        if place.endswith("[]"):
            target = target[0]
    return target, name


@pytest.mark.slow  # to import the SDK
def test_a_number_changes_the_cost_if_that_was_decided(subtests):
    numbers = sorted(field.path for field in sdk_fields.list_response_fields() if field.is_number)
    assert {*COUNTS} < {*numbers}
    for path in numbers:
        with subtests.test(path=path):
            costs = list(_change_cost(path))
            assert None not in [cost for pair in costs for cost in pair]
            assert any(before != after for before, after in costs) == (path in COUNTS)


def _change_cost(path: str) -> Iterator[tuple[Decimal | None, Decimal | None]]:
    """Yield the cost of messages before and after a count of theirs has grown."""
    for message in list_messages():
        if path.startswith("usage.iterations") and "iterations" not in message["usage"]:
            continue
        before = compute_cost(message)
        target, name = find_parent(message, path)
        target[name] = target.get(name, 0) + 500
        yield before, compute_cost(message)


@pytest.mark.parametrize("field", [path for path in COSTING if path not in COUNTS])
def test_what_decides_about_a_cost_makes_a_difference_to_what_is_read(field):
    path, _, value = field.partition("=")
    *_, message = list_messages()
    message["stop_reason"] = "refusal"
    message["content"][:0] = [
        {
            "type": "fallback",
            "from": {"model": "claude-fable-5-1"},
            "to": {"model": "claude-opus-5-5"},
            "trigger": {"type": "refusal", "category": None},
        }
    ]
    target, name = find_parent(message, path)
    readings = []
    for text in (value or "one", "another"):
        target[name] = text
        body = json.dumps(message).encode()
        readings.append(read_usage(200, "application/json", body, is_complete=True))
    assert readings[0] != readings[1]
