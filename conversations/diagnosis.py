"""Reading of the facts about the cache in a response.

These are upstream's diagnosis of a miss, the identity of the message, and whether upstream has
shortened the history. A client requests the diagnosis by naming the message before; upstream
compares the structure of both requests and names the first difference. That does not prove a miss,
so it explains a break but is never the reason to report one."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from metering.usage import Usage
from wire.json_reading import as_count, clean_text

type UpstreamCause = Literal["model", "system", "tools", "messages"]

_CAUSES: Mapping[str, UpstreamCause] = {
    "model_changed": "model",
    "system_changed": "system",
    "tools_changed": "tools",
    "messages_changed": "messages",
}


class CacheReport(NamedTuple):
    """The facts about the cache in a response.

    ``reason`` is upstream's name for the cause of a miss and ``cause`` ours, None if there is none;
    ``missed_tokens`` is upstream's estimate."""

    message_id: str | None = None
    reason: str | None = None
    cause: UpstreamCause | None = None
    missed_tokens: int | None = None
    has_edits: bool = False


NO_REPORT = CacheReport()


def read_cache_report(usage: Usage) -> CacheReport:
    """Return the facts about the cache in a response."""
    said = usage.envelope
    kind = clean_text(said.cache_miss.get("type"))
    return CacheReport(
        message_id=said.id,
        reason=kind,
        cause=_CAUSES.get(kind or ""),
        missed_tokens=as_count(said.cache_miss.get("cache_missed_input_tokens")),
        has_edits=bool(said.edits),
    )
