"""Messages of transcripts of Claude Code, and the entries that are made from them.

A transcript has a line for each block of a response, each with the same message of upstream around
it and the counts until then: the counts of the last line are those of the whole. Older clients
wrote one line for each message. A transcript has no time of the first byte and no headers, and does
not say who paid."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import orjson

from metering.billed_passes import make_call
from metering.body_fields import make_request_fields, make_response_fields
from metering.entry import UsageLogEntry
from metering.metadata_only import drop_text
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.request_facts import parse_facts
from metering.token_counts import NAMES
from metering.usage import read_usage
from wire.json_reading import as_list, as_object, as_text, clean_text

IMPORTED: Literal["imported"] = "imported"
PREFIX = "claude-code:"
MAX_ID_CHARS = 150
SIDECHAIN = "sidechain"  # the agent of subagents that older clients give no id

type Reason = Literal["no_call", "no_message_id", "no_usage", "no_time", "unreadable", "too_long"]


@dataclass(slots=True, kw_only=True)
class Message:
    """A message of a transcript, with everything that its lines share.

    ``request_ref`` identifies the request that was recorded with it, None if there is none. ``prompt``
    is the last text of a person before it."""

    id: str
    timestamp: str
    is_sidechain: bool
    session_id: str | None
    agent_id: str | None
    version: str | None
    request_id: str | None
    request_ref: str | None
    message: dict[str, Any]
    total: int
    content: list[Any] = field(default_factory=list)
    prompt: str | None = None

    def add(self, other: "Message") -> None:
        """Add a further line of the same message."""
        known = {orjson.dumps(block) for block in self.content}
        self.content += [each for each in other.content if orjson.dumps(each) not in known]
        if other.total >= self.total:
            self.message, self.total = other.message, other.total
        self.is_sidechain = self.is_sidechain and other.is_sidechain


def read_message(line: dict[str, Any]) -> Message | Reason | None:
    """Return the message of a line, the reason why it has none, or None for a line of another kind."""
    if line.get("type") != "assistant":
        return None
    message = as_object(line.get("message"))
    if message.get("model") == "<synthetic>" or line.get("isApiErrorMessage") is True:
        return "no_call"
    id_ = as_text(message.get("id"))
    if not 0 < len(id_) <= MAX_ID_CHARS or not id_.isprintable():
        return "no_message_id"
    usage = as_object(message.get("usage"))
    counts = [usage.get(name) for name in NAMES]
    if not any(type(count) is int for count in counts):
        return "no_usage"
    timestamp = as_text(line.get("timestamp"))
    if not _is_instant(timestamp):
        return "no_time"
    is_sidechain = line.get("isSidechain") is True
    agent_id = _read_name(line, "agentId")
    return Message(
        id=id_,
        timestamp=timestamp,
        is_sidechain=is_sidechain,
        session_id=_read_name(line, "sessionId"),
        agent_id=(agent_id or SIDECHAIN) if is_sidechain else None,
        version=_read_name(line, "version"),
        request_id=_read_name(line, "requestId"),
        request_ref=_read_name(line, "requestRef"),
        message=message,
        total=sum(count for count in counts if type(count) is int),
        content=[*as_list(message.get("content"))],
    )


def read_prompt(line: dict[str, Any]) -> str | None:
    """Return the text of a person in a line, or None."""
    if line.get("type") != "user" or line.get("isMeta") is True:
        return None
    content = as_object(line.get("message")).get("content")
    if isinstance(content, str):
        return content
    texts = [as_text(as_object(block).get("text")) for block in as_list(content)]
    return next(filter(None, texts), None)


def make_entry(
    message: Message,
    prices: PriceTable,
    *,
    created_at: str,
    proxy_endpoint_id: str,
    slug: str,
    request: bytes | None,
    with_text: bool,
) -> UsageLogEntry:
    """Return the entry for a message, with the prices of its day. ``request`` is its body, None if
    unknown."""
    body = orjson.dumps({**message.message, "content": message.content})
    usage = read_usage(200, "application/json", body, is_complete=True)
    call = make_call(
        usage, created_at=datetime.fromisoformat(created_at), outcome="complete", status_code=200
    )
    items, cost_cents = price_call(call, prices)
    asked = {} if request is None else make_request_fields(parse_facts(request))
    if with_text and asked.get("title_text") is None and message.prompt is not None:
        asked["title_text"] = clean_text(message.prompt)
    entry = UsageLogEntry(
        entry_id=f"{PREFIX}{message.id}",
        created_at=created_at,
        proxy_endpoint_id=proxy_endpoint_id,
        slug=slug,
        outcome=call.outcome,
        usage_source=IMPORTED,
        billing=IMPORTED,
        streamed=False,
        model=usage.model,
        tokens=usage.tokens,
        cost_cents=cost_cents,
        cost_items=items,
        status_code=200,
        request_body=request,
        response_body=body,
        session_id=message.session_id,
        agent_id=message.agent_id,
        client=f"claude-cli/{message.version}" if message.version else "claude-cli",
        service_tier=usage.service_tier,
        speed=usage.speed,
        inference_geo=usage.inference_geo,
        upstream_request_id=message.request_id,
        **asked,
        **make_response_fields(usage, body),
    )
    if with_text:
        return entry
    return drop_text(replace(entry, request_body=None, response_body=None))


def _read_name(line: dict[str, Any], name: str) -> str | None:
    return clean_text(as_text(line.get(name)) or None)


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
