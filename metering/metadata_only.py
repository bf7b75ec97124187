"""Entries for endpoints that keep metadata only: names, numbers, cost and times, and no text."""

from dataclasses import replace
from typing import Any

import orjson

from metering.body_notes import drop_body
from metering.entry import UsageLogEntry
from metering.rate_limits import RateLimits
from metering.request_facts import keep_plain_list, keep_plain_name
from metering.tool_uses import keep_plain_uses
from wire.json_reading import as_text, parse_object

_NAMES = (
    "model",
    "request_model",
    "upstream_request_id",
    "session_id",
    "agent_id",
    "service_tier",
    "speed",
    "inference_geo",
    "error_type",
    "api_version",
    "run_id",
    "stop_reason",
    "refusal_category",
    "effort",
    "upstream_organization_id",
    "workspace_id",
    "message_id",
    "thread_previous_id",
    "user_profile_id",
    "container_id",
)


def drop_text(entry: UsageLogEntry) -> UsageLogEntry:
    """Return the entry without values that may be text, even if they are in fields for names."""
    names: dict[str, Any] = {name: keep_plain_name(getattr(entry, name)) for name in _NAMES}
    return replace(
        entry,
        **names,
        title_text=None,
        said_text=None,
        tool_uses=tuple(keep_plain_uses(entry.tool_uses)),
        rate_limits=entry.rate_limits and _keep_plain_limits(entry.rate_limits),
        betas=keep_plain_list(entry.betas, ","),
        client=keep_plain_list(entry.client, " "),
        cost_items=tuple(
            item._replace(model=keep_plain_name(item.model), speed=keep_plain_name(item.speed))
            for item in entry.cost_items
        ),
    )


def drop_response_text(entry: UsageLogEntry) -> UsageLogEntry:
    """Return the entry without its response, and without values that may be text."""
    return drop_text(drop_body(entry, "response", "metadata only"))


def _keep_plain_limits(limits: RateLimits) -> RateLimits:
    """Return the limits without headers of unknown meaning whose values may be text."""
    others = parse_object((limits.other or "").encode()) or {}
    plain = {name: text for name, text in others.items() if keep_plain_name(as_text(text))}
    return limits._replace(other=orjson.dumps(plain).decode() if plain else None)
