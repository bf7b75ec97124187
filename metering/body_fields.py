"""The fields of an entry that are read from the bodies, other than tokens, model and cost."""

from collections.abc import Sequence
from typing import Any

from metering.entry import UsageSource
from metering.request_facts import RequestFacts
from metering.tool_uses import read_said_text, read_tool_uses
from metering.upstream_changes import list_changes
from metering.usage import Usage
from wire.block import Block
from wire.content import list_content, read_content
from wire.json_reading import clean_text

# In less time than this, what was generated before came at once: the speed of it would be that of a cache.
MIN_GENERATION_MS = 10.0


def make_request_fields(facts: RequestFacts) -> dict[str, Any]:
    """Return the fields of an entry that come from the request, by name."""
    return {
        "request_model": clean_text(facts.model),
        "max_tokens": facts.max_tokens,
        "message_count": facts.message_count,
        "tool_count": facts.tool_count,
        "effort": clean_text(facts.effort),
        "thinking_budget": facts.thinking_budget,
        "cache_ttl": facts.cache_ttl,
        "title_text": clean_text(facts.title_text),
        "thread": facts.thread,
        "free_containers": facts.free_containers,
        "thread_previous_id": clean_text(facts.thread_previous_id),
    }


def make_response_fields(usage: Usage, body: bytes) -> dict[str, Any]:
    """Return the fields of an entry that come from the response, by name. ``body`` is its decoded body."""
    said = usage.envelope
    return {
        **_make_content_fields(list_content(said, body)),
        "message_id": said.id,
        "stop_reason": usage.stop_reason,
        "container_id": usage.container_id,
        "container_unnamed": usage.container_unnamed,
        "changed_by_upstream": ",".join(list_changes(said)) or None,
        "refusal_category": usage.refusal_category,
        "thinking_tokens": usage.thinking_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens if usage.tokens.are_known else None,
        "web_search_requests": usage.web_search_requests,
    }


def read_content_fields(body: bytes) -> dict[str, Any]:
    """Return the fields of an entry that come from the content of a decoded response, by name."""
    return _make_content_fields(read_content(body).blocks)


def _make_content_fields(blocks: Sequence[Block]) -> dict[str, Any]:
    return {"said_text": read_said_text(blocks), "tool_uses": tuple(read_tool_uses(blocks))}


def calculate_speed(
    *,
    streamed: bool,
    source: UsageSource,
    output_tokens: int | None,
    duration_ms: float | None,
    ttfb_ms: float | None,
) -> float | None:
    """Return the output tokens per second between first and last byte, or None.

    None if the tokens were not generated in that time, as in a response that was not streamed."""
    if not streamed or source != "final" or not output_tokens:
        return None
    if duration_ms is None or ttfb_ms is None or duration_ms - ttfb_ms < MIN_GENERATION_MS:
        return None
    return round(output_tokens * 1000 / (duration_ms - ttfb_ms), 1)
