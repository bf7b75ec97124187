"""The headline of a call's page, and all fields with their labels.

All text here is fit to be shown (see ``runtime.safe_text``) and still to be escaped, which templates do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dashboard.call import fact
from dashboard.call.fact import Group
from dashboard.call.failure import Failure, describe_shortly
from dashboard.call.limits import list_hints, list_limits
from dashboard.formats import Mark, outcome_mark
from dashboard.what_was_done import Deed
from metering.attribution import parse_tags
from metering.entry import UsageLogEntry
from metering.formats import (
    UNKNOWN,
    format_cache_share,
    format_cents,
    format_count,
    format_duration,
    format_short_tokens,
)
from metering.token_counts import OTHER_CLASSES, PROMPT_CLASSES, TokenClass, TokenCounts
from runtime.safe_text import reveal
from store.traces.calls.call_reader import Call

_SOURCES = {
    "final": "final, as reported at the end of the response",
    "estimated": "estimated: the response was cut, its output is estimated by what was delivered",
    "partial": "partial: the response was cut, the upstream may bill more",
    "none": "none: the response had no usage",
    "imported": "imported from a transcript of the client",
}
_BILLING = {
    "imported": "not known: the call is imported",
    "api_key": "by token (API key)",
    "subscription": "subscription, which covers the call",
    "customer": "a customer, whose organization is linked to the user profile",
}
_OVERAGE = "subscription, as paid extra usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The head of the page. Every text is ready to be displayed, ``—`` for an unknown value.

    ``verb`` and ``words`` are what the call did, with ``words`` to be quoted where they were said; for a
    call of which that is not known, what was asked, or the model. ``instant`` is the time as it is stored."""

    verb: str
    words: str
    is_quoted: bool
    problem: str
    problem_is_failure: bool
    model: str
    instant: str
    mark: Mark
    cost: str
    duration: str
    first_byte: str
    prompt: str
    cache_share: str
    output: str

    @property
    def title(self) -> str:
        """Return what the call did, for the title of the page."""
        return f"{self.verb} {self.words}".strip()


def make_headline(
    entry: UsageLogEntry, deed: Deed | None = None, failure: Failure | None = None
) -> Headline:
    """Return what stands at the top of the page: deed, model, time, and the main figures, rounded."""
    tokens = entry.tokens
    model = reveal(entry.model or entry.request_model or "Unknown model")
    verb, words, is_quoted = _name(entry, deed, failure, model)
    return Headline(
        verb=verb,
        words=reveal(words),
        is_quoted=is_quoted,
        problem=reveal(deed.problem) if deed else "",
        problem_is_failure=deed is not None and deed.is_failed,
        model=model,
        instant=reveal(entry.created_at),
        mark=outcome_mark(entry.outcome, entry.status_code, entry.stop_reason),
        cost=format_cents(None if entry.cost_cents is None else float(entry.cost_cents)),
        duration=format_duration(entry.duration_ms),
        first_byte=format_duration(entry.ttfb_ms),
        prompt=format_short_tokens(tokens.prompt),
        cache_share=format_cache_share(tokens),
        output=format_short_tokens(tokens.output_tokens),
    )


def _name(
    entry: UsageLogEntry, deed: Deed | None, failure: Failure | None, model: str
) -> tuple[str, str, bool]:
    """Return verb and words of a call, and whether the words were said."""
    if deed is not None:
        words = deed.words
        return deed.verb, words or deed.says, not words
    if failure is not None:
        return "Failed", describe_shortly(entry), False
    return (entry.title_text, "", False) if entry.title_text else (model, "", False)


def list_facts(call: Call) -> tuple[Group, ...]:
    """Return every field of ``usage_log`` but the bodies."""
    entry = call.entry
    return (
        Group(
            title="Call",
            facts=(
                fact.linked("Outcome", entry.outcome, "outcome"),
                fact.linked("Status", entry.status_code, "status_code"),
                fact.linked("Error type", entry.error_type, "error_type"),
                fact.linked("Stop reason", entry.stop_reason, "stop_reason"),
                fact.linked("Refusal category", entry.refusal_category, "refusal_category"),
                fact.linked("Model", entry.model, "model"),
                fact.linked("Requested model", entry.request_model, "request_model"),
                fact.Fact("Response type", "event stream" if entry.streamed else "single body"),
                fact.linked("Body notes", entry.body_notes, "body_notes"),
                fact.name("Entry", entry.entry_id),
            ),
        ),
        Group(
            title="Tokens",
            facts=(
                *_counts(entry.tokens, PROMPT_CLASSES),
                fact.Fact(
                    "Prompt total",
                    format_count(entry.tokens.prompt),
                    note=_share(entry.tokens),
                ),
                *_counts(entry.tokens, OTHER_CLASSES),
                fact.count("Reasoning, in output", entry.thinking_tokens),
                fact.count("One-hour, in cache writes", entry.cache_write_1h_tokens),
                fact.count("Web searches", entry.web_search_requests),
                fact.Fact("Usage source", _SOURCES.get(entry.usage_source, entry.usage_source)),
            ),
        ),
        Group(
            title="Time",
            facts=(
                fact.duration("Duration", entry.duration_ms),
                fact.duration("Time to first byte", entry.ttfb_ms),
                fact.duration("Proxy overhead", entry.proxy_overhead_ms),
                fact.Fact("Output speed", _speed(entry.output_tokens_per_s)),
            ),
        ),
        Group(
            title="Upstream",
            facts=(
                fact.linked("Upstream of the endpoint", entry.upstream, "upstream"),
                fact.name("Request id", entry.upstream_request_id),
                fact.name("Message id", entry.message_id),
                fact.linked("Service tier", entry.service_tier, "service_tier"),
                fact.linked("Speed", entry.speed, "speed"),
                fact.linked("Inference region", entry.inference_geo, "inference_geo"),
                fact.Fact("Billing", _billing(entry)),
                fact.linked("Credential fingerprint", entry.credential_hmac, "credential_hmac"),
                fact.linked(
                    "Organization", entry.upstream_organization_id, "upstream_organization_id"
                ),
                fact.linked("Workspace", entry.workspace_id, "workspace_id"),
                fact.linked("User profile", entry.user_profile_id, "user_profile_id"),
                fact.linked("Product", entry.product, "product"),
                _container(entry),
                fact.linked("API version", entry.api_version, "api_version"),
                fact.linked("Betas", entry.betas, "betas"),
            ),
        ),
        Group(
            title="Client",
            facts=(
                fact.linked("Endpoint", entry.slug, "slug"),
                fact.linked("Proxy endpoint", entry.proxy_endpoint_id, "proxy_endpoint_id"),
                fact.session(call.session),
                fact.linked("Agent", entry.agent_id, "agent_id"),
                fact.linked("Parent agent", entry.parent_agent_id, "parent_agent_id"),
                fact.linked("Request class", entry.request_class, "request_class"),
                fact.linked("Prompt", entry.prompt_id, "prompt_id"),
                *list_hints(entry.client_hints),
                _named_by_client(fact.linked("User", entry.attributed_user, "attributed_user")),
                _named_by_client(fact.linked("Project", entry.project, "project")),
                _named_by_client(fact.Fact("Tags", ", ".join(parse_tags(entry.tags)))),
                fact.count("Attributes left out", entry.attributes_left_out),
                fact.linked("Run", entry.run_id, "run_id"),
                fact.linked("Client", entry.client, "client"),
                fact.count("Retry", entry.retry_count),
                fact.linked("Path and query", entry.path_query, "path_query"),
            ),
        ),
        Group(
            title="Request",
            facts=(
                fact.linked("Effort", entry.effort, "effort"),
                fact.count("Thinking budget", entry.thinking_budget),
                fact.linked("Cache lifetime", entry.cache_ttl, "cache_ttl"),
                fact.linked("Message thread", entry.thread, "thread"),
                fact.linked("Continues message", entry.thread_previous_id, "message_id"),
                fact.count("Messages", entry.message_count),
                fact.count("Tools", entry.tool_count),
                fact.count("Output limit", entry.max_tokens),
            ),
        ),
        Group(
            title="Size",
            facts=(
                fact.size("Request, on the wire", entry.request_bytes),
                fact.size("Request, decoded", call.request.length if call.request else None),
                fact.size("Response, on the wire", entry.response_bytes),
                fact.size("Response, decoded", call.response.length if call.response else None),
            ),
        ),
        *list_limits(entry.rate_limits, entry.limited_by),
    )


def part_facts(groups: Iterable[Group]) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Return the groups without empty facts, and the labels of those."""
    known, empty = [], []
    for group in groups:
        facts = tuple(each for each in group.facts if each.text != UNKNOWN)
        empty += [each.label for each in group.facts if each.text == UNKNOWN]
        if facts:
            known.append(Group(title=group.title, facts=facts))
    return tuple(known), tuple(empty)


def _counts(tokens: TokenCounts, classes: Iterable[TokenClass]) -> Iterator[fact.Fact]:
    return (fact.count(each.title, getattr(tokens, each.name)) for each in classes)


def _share(tokens: TokenCounts) -> str:
    share = format_cache_share(tokens)
    return "" if share == UNKNOWN else f"{share} from cache"


def _container(entry: UsageLogEntry) -> fact.Fact:
    if entry.container_unnamed:
        text = "not named: the response was cut"
        return fact.Fact("Container", text, href=fact.calls_address("container_unnamed", 1))
    return fact.linked("Container", entry.container_id, "container_id")


def _named_by_client(named: fact.Fact) -> fact.Fact:
    """Return a field whose value its client, or the run of that, has chosen."""
    return named if named.text in ("", UNKNOWN) else replace(named, note="as the client says")


def _billing(entry: UsageLogEntry) -> str:
    if entry.overage and entry.billing != "customer":
        return _OVERAGE
    return _BILLING.get(entry.billing or "", UNKNOWN)


def _speed(tokens_per_s: float | None) -> str:
    return UNKNOWN if tokens_per_s is None else f"{tokens_per_s:,.1f} tokens per second"
