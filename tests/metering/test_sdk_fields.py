"""A decision for each field of the installed SDK that may bear on the cost of a response.

A new SDK with other fields fails the first test here until somebody decides about them: read the field
(``metering/usage.py``) and list it as read, or say why it is not."""

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

pytestmark = pytest.mark.slow  # to import the SDK

# The cost is a sum over these.
COUNTED = """
usage.input_tokens usage.output_tokens
usage.cache_creation_input_tokens usage.cache_read_input_tokens
usage.cache_creation.ephemeral_1h_input_tokens usage.cache_creation.ephemeral_5m_input_tokens
usage.server_tool_use.web_search_requests
usage.iterations[].input_tokens usage.iterations[].output_tokens
usage.iterations[].cache_creation_input_tokens usage.iterations[].cache_read_input_tokens
usage.iterations[].cache_creation.ephemeral_1h_input_tokens
usage.iterations[].cache_creation.ephemeral_5m_input_tokens
"""
# These decide which model and rate a count belongs to, and whether it is billed.
READ = """
model
usage.service_tier=batch usage.service_tier=priority usage.service_tier=standard
usage.speed=fast usage.speed=standard usage.inference_geo
usage.iterations[].model usage.iterations[].type=advisor_message
usage.iterations[].type=compaction usage.iterations[].type=fallback_message
usage.iterations[].type=message
stop_reason=compaction stop_reason=end_turn stop_reason=max_tokens
stop_reason=model_context_window_exceeded stop_reason=pause_turn stop_reason=refusal
stop_reason=stop_sequence stop_reason=tool_use
content[].type=fallback content[].from.model content[].to.model
"""
CATEGORIES = ("bio", "cyber", "frontier_llm", "general_harms", "reasoning_extraction")
REFUSALS = " ".join(
    f"stop_details.category={category} content[].trigger.category={category}"
    for category in CATEGORIES
)
NOT_USED = {
    "It says what a document is; tests/metering/test_usage.py has both kinds.": """
        type=message type=message_delta""",
    "It is the only trigger there is.": """
        content[].trigger.type=refusal""",
    "It is a part of output_tokens, which is what is billed.": """
        usage.output_tokens_details.thinking_tokens""",
    "Fetching is free. The text that is fetched is in input_tokens.": """
        usage.server_tool_use.web_fetch_requests""",
    "A credit is in the counts: cache reads in place of cache writes (docs/costs.md).": """
        usage.fallback_credit.status.type=redeemed usage.fallback_credit.status.type=not_applied
        usage.fallback_credit.status.reason=body_mismatch
        usage.fallback_credit.status.reason=continuation_excluded
        usage.fallback_credit.status.reason=continuation_only
        usage.fallback_credit.status.reason=expired
        usage.fallback_credit.status.reason=invalid_target_model
        usage.fallback_credit.status.reason=not_enabled
        usage.fallback_credit.status.reason=reprice_unavailable
        usage.fallback_credit.status.reason=temporarily_unavailable
        usage.fallback_credit.status.reason=variant_fields_present
        usage.fallback_credit.status.reason=wrong_organization
        usage.fallback_credit.status.reason=wrong_platform
        usage.fallback_credit.status.reason=wrong_workspace
        usage.fallback_credit.status.remove_to_redeem[]
        stop_details.fallback_credit_token stop_details.fallback_has_prefill_claim""",
    "It is for the client: nothing that is billed follows from it.": """
        id role=assistant stop_sequence
        stop_details.type=refusal stop_details.explanation stop_details.recommended_model
        input_transformations[].path
        input_transformations[].type=thinking_dropped
        input_transformations[].type=thinking_mismatch_allowed
        input_transformations[].reason=end_user_binding_mismatch
        input_transformations[].reason=model_binding_mismatch
        input_transformations[].reason=organization_binding_mismatch
        input_transformations[].reason=prefix_binding_mismatch""",
    "Hours of a container are billed by a meter of their own (docs/costs.md).": """
        container.id container.expires_at
        container.skills[].skill_id container.skills[].version
        container.skills[].type=anthropic container.skills[].type=custom""",
    "What was cleared is not in input_tokens, and is not billed.": """
        context_management.applied_edits[].cleared_input_tokens
        context_management.applied_edits[].cleared_thinking_turns
        context_management.applied_edits[].cleared_tool_uses
        context_management.applied_edits[].type=clear_thinking_20251015
        context_management.applied_edits[].type=clear_tool_uses_20250919""",
    "It explains counts that are in usage.": """
        diagnostics.cache_miss_reason.cache_missed_input_tokens
        diagnostics.cache_miss_reason.type=messages_changed
        diagnostics.cache_miss_reason.type=model_changed
        diagnostics.cache_miss_reason.type=previous_message_not_found
        diagnostics.cache_miss_reason.type=system_changed
        diagnostics.cache_miss_reason.type=tools_changed
        diagnostics.cache_miss_reason.type=unavailable""",
    "The tokens of a block are in usage, and so are searches.": """
        content[].type=advisor_tool_result content[].type=bash_code_execution_tool_result
        content[].type=code_execution_tool_result content[].type=compaction
        content[].type=container_upload content[].type=mcp_tool_listing
        content[].type=mcp_tool_result content[].type=mcp_tool_use
        content[].type=redacted_thinking content[].type=server_tool_use content[].type=text
        content[].type=text_editor_code_execution_tool_result content[].type=thinking
        content[].type=tool_search_tool_result content[].type=tool_use
        content[].type=web_fetch_tool_result content[].type=web_search_tool_result""",
}
PRICES = PriceTable()
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(scope="module")
def fields():
    """Imported only here: the SDK takes longer than all other modules of the tests together."""
    from tests.metering.sdk_fields import list_fields

    return list_fields()


def test_there_is_a_decision_about_each_field_of_a_response(fields):
    decided = " ".join([COUNTED, READ, REFUSALS, *NOT_USED.values()]).split()
    assert sorted(decided) == sorted({field.path for field in fields})


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


def test_a_count_changes_the_cost_if_it_is_listed_as_counted(fields, subtests):
    numbers = sorted(field.path for field in fields if field.is_number)
    assert numbers
    for path in numbers:
        with subtests.test(path=path):
            costs = list(_change_cost(path))
            assert None not in [cost for pair in costs for cost in pair]
            assert any(before != after for before, after in costs) == (path in COUNTED.split())


def _change_cost(path: str) -> Iterator[tuple[Decimal | None, Decimal | None]]:
    """Yield the cost of messages before and after a count of theirs has grown."""
    for message in list_messages():
        if path.startswith("usage.iterations") and "iterations" not in message["usage"]:
            continue
        before = compute_cost(message)
        target, name = find_parent(message, path)
        target[name] = target.get(name, 0) + 500
        yield before, compute_cost(message)


@pytest.mark.parametrize("field", [*READ.split(), *REFUSALS.split()])
def test_what_is_listed_as_read_makes_a_difference_to_what_is_read(field):
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
