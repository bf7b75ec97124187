"""The headline of a call's page, and all fields with their labels.

All text here is fit to be shown (see ``runtime.safe_text``) and still to be escaped, which templates do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from dashboard.formats import Mark, outcome_mark
from metering.entry import UsageLogEntry
from metering.formats import (
    UNKNOWN,
    format_bytes,
    format_bytes_exactly,
    format_cache_share,
    format_cents,
    format_count,
    format_duration,
    format_milliseconds,
    format_tokens,
)
from metering.token_counts import OTHER_CLASSES, PROMPT_CLASSES, TokenClass, TokenCounts
from runtime import clock
from runtime.safe_text import reveal
from store.traces.call_reader import Call

_TABLE = "/traces/usage"
_SOURCES = {
    "final": "final, as reported at the end of the response",
    "partial": "partial: the response was cut, the upstream may bill more",
    "none": "none: the response had no usage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One field. ``href`` leads to all calls with the same value. ``is_name``: the value is an
    identifier."""

    label: str
    text: str
    href: str = ""
    note: str = ""
    is_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields that belong together."""

    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The top of the page. Every text is ready to be displayed, ``—`` for an unknown value.
    ``title`` is empty where there are no words, and ``instant`` is the time as it is stored."""

    title: str
    model: str
    instant: str
    time: str
    mark: Mark
    cost: str
    duration: str
    first_byte: str
    prompt: str
    cache_share: str
    output: str


def make_headline(entry: UsageLogEntry) -> Headline:
    """Return what stands at the top of the page: title, model, time, and the main figures, rounded."""
    tokens = entry.tokens
    return Headline(
        title=reveal(entry.title_text or ""),
        model=reveal(entry.model or entry.request_model or "Unknown model"),
        instant=reveal(entry.created_at),
        time=clock.format_stored(reveal(entry.created_at)),
        mark=outcome_mark(entry.outcome, entry.status_code),
        cost=format_cents(None if entry.cost_cents is None else float(entry.cost_cents)),
        duration=format_duration(entry.duration_ms),
        first_byte=format_duration(entry.ttfb_ms),
        prompt=format_tokens(tokens.prompt),
        cache_share=format_cache_share(tokens),
        output=format_tokens(tokens.output_tokens),
    )


def list_facts(call: Call) -> tuple[Group, ...]:
    """Return every field of ``usage_log`` but the bodies."""
    entry = call.entry
    return (
        Group(
            title="Call",
            facts=(
                _linked("Outcome", entry.outcome, "outcome"),
                _linked("Status", entry.status_code, "status_code"),
                _linked("Error type", entry.error_type, "error_type"),
                _linked("Model", entry.model, "model"),
                _linked("Requested model", entry.request_model, "request_model"),
                Fact(
                    label="Response type", text="event stream" if entry.streamed else "single body"
                ),
                _linked("Body notes", entry.body_notes, "body_notes"),
                _name("Entry", entry.entry_id),
            ),
        ),
        Group(
            title="Tokens",
            facts=(
                *_counts(entry.tokens, PROMPT_CLASSES),
                Fact(
                    label="Prompt total",
                    text=format_count(entry.tokens.prompt),
                    note=_share(entry.tokens),
                ),
                *_counts(entry.tokens, OTHER_CLASSES),
                Fact(
                    label="Usage source", text=_SOURCES.get(entry.usage_source, entry.usage_source)
                ),
            ),
        ),
        Group(
            title="Time",
            facts=(
                _duration("Duration", entry.duration_ms),
                _duration("Time to first byte", entry.ttfb_ms),
                _duration("Proxy overhead", entry.proxy_overhead_ms),
            ),
        ),
        Group(
            title="Upstream",
            facts=(
                _name("Request id", entry.upstream_request_id),
                _linked("Service tier", entry.service_tier, "service_tier"),
                _linked("Speed", entry.speed, "speed"),
                _linked("Inference region", entry.inference_geo, "inference_geo"),
                _linked("Credential fingerprint", entry.credential_hmac, "credential_hmac"),
                _linked("API version", entry.api_version, "api_version"),
                _linked("Betas", entry.betas, "betas"),
            ),
        ),
        Group(
            title="Client",
            facts=(
                _linked("Slug", entry.slug, "slug"),
                _linked("Proxy endpoint", entry.proxy_endpoint_id, "proxy_endpoint_id"),
                _linked("Session", entry.session_id, "session_id"),
                _linked("Agent", entry.agent_id, "agent_id"),
                _linked("Run", entry.run_id, "run_id"),
                _linked("Client", entry.client, "client"),
                _count("Retry", entry.retry_count),
                _linked("Path and query", entry.path_query, "path_query"),
            ),
        ),
        Group(
            title="Size",
            facts=(
                _count("Messages", entry.message_count),
                _count("Tools", entry.tool_count),
                _count("Output limit", entry.max_tokens),
                _size("Request, on the wire", entry.request_bytes),
                _size("Request, decoded", call.request.length if call.request else None),
                _size("Response, on the wire", entry.response_bytes),
                _size("Response, decoded", call.response.length if call.response else None),
            ),
        ),
    )


def calls_address(column: str, value: object) -> str:
    """Return the address of all calls with this value."""
    return f"{_TABLE}?{column}={quote(str(value).encode('utf-8', 'replace'), safe='')}"


def _counts(tokens: TokenCounts, classes: Iterable[TokenClass]) -> Iterator[Fact]:
    return (_count(each.title, getattr(tokens, each.name)) for each in classes)


def _share(tokens: TokenCounts) -> str:
    share = format_cache_share(tokens)
    return "" if share == UNKNOWN else f"{share} from cache"


def _linked(label: str, value: str | int | None, column: str) -> Fact:
    if value is None:
        return Fact(label=label, text=UNKNOWN)
    is_name = isinstance(value, str)
    return Fact(
        label=label, text=reveal(str(value)), href=calls_address(column, value), is_name=is_name
    )


def _name(label: str, value: str | None) -> Fact:
    return Fact(label=label, text=UNKNOWN if value is None else reveal(value), is_name=True)


def _count(label: str, value: int | None) -> Fact:
    return Fact(label=label, text=format_count(value))


def _size(label: str, value: int | None) -> Fact:
    note = "" if value is None or value < 1000 else format_bytes_exactly(value)
    return Fact(label=label, text=format_bytes(value), note=note)


def _duration(label: str, value: float | None) -> Fact:
    note = "" if value is None or value < 1000 else format_milliseconds(value)
    return Fact(label=label, text=format_duration(value), note=note)
