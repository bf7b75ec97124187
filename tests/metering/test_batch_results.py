import json
from decimal import Decimal

import pytest

from metering.batch_results import make_entry_id, make_result_entry
from metering.prices import PriceTable
from wire.batch_results import BatchResult, parse_result

PRICES = PriceTable()
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "model": "claude-opus-5",
    "content": [{"type": "text", "text": "Done"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 1_000,
        "output_tokens": 100,
        "cache_read_input_tokens": 10_000,
        "cache_creation_input_tokens": 2_000,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 1_500,
            "ephemeral_1h_input_tokens": 500,
        },
    },
}
ERROR = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "no"},
    "request_id": "req_1",
}


def write(result, custom_id="one"):
    return json.dumps({"custom_id": custom_id, "result": result}).encode()


def record(result):
    parsed = parse_result(write(result))
    assert parsed is not None
    return make_result_entry(
        parsed,
        "msgbatch_1",
        PRICES,
        created_at="2026-11-20T10:00:00.123Z",
        proxy_endpoint_id="endpoint",
        slug="team-a",
    )


def test_a_result_becomes_an_entry_of_its_message():
    entry = record({"type": "succeeded", "message": MESSAGE})
    assert (entry.entry_id, entry.created_at) == ("msgbatch_1:one", "2026-11-20T10:00:00.123Z")
    assert (entry.outcome, entry.status_code, entry.usage_source) == ("complete", 200, "final")
    assert (entry.model, entry.message_id, entry.stop_reason) == (
        "claude-opus-5",
        "msg_1",
        "end_turn",
    )
    assert entry.cache_write_1h_tokens == 500
    assert (entry.streamed, entry.request_body) == (False, None)
    assert json.loads(entry.response_body or b"") == MESSAGE


def test_what_errored_costs_nothing():
    entry = record({"type": "errored", "error": ERROR})
    assert (entry.outcome, entry.error_type) == ("upstream_error", "invalid_request_error")
    assert (entry.cost_cents, entry.usage_source, entry.status_code) == (Decimal(0), "none", None)
    assert entry.upstream_request_id == "req_1"


@pytest.mark.parametrize("kind", ["canceled", "expired"])
def test_what_never_ran_is_no_call(kind):
    result = parse_result(write({"type": kind}))
    assert result == BatchResult(custom_id="one", type=kind, body=b"")
    assert not result.has_run


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        write(None),
        write({"type": "of the future"}),
        write({"type": ["succeeded"]}),
        write({"type": "succeeded"}),
        write({"type": "succeeded", "message": "text"}),
        write({"type": "errored", "error": None}),
        write({"type": "canceled"}, custom_id=7),
    ],
)
def test_what_is_no_result_is_none(line):
    assert parse_result(line) is None


def test_an_entry_is_known_by_its_batch_and_custom_id():
    assert make_entry_id("msgbatch_1", "a-B_9") == "msgbatch_1:a-B_9"
    odd = make_entry_id("msgbatch_1", "ü /" * 100)
    assert odd == make_entry_id("msgbatch_1", "ü /" * 100)
    assert odd.startswith("batch:")
    assert odd != make_entry_id("msgbatch_2", "ü /" * 100)
