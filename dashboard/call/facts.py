"""All fields of a call with their labels."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dashboard.addresses import session_address
from dashboard.call.fact import Fact, Group, calls_address, make_fact
from dashboard.call.limits import list_hints, list_limits
from metering.attribution import parse_tags
from metering.formats import UNKNOWN, format_cache_share, format_count
from metering.token_counts import OTHER_CLASSES, PROMPT_CLASSES
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


def list_facts(call: Call) -> tuple[Group, ...]:
    """Return all fields of ``usage_log`` except the bodies, in titled groups, then the rate limits."""
    groups = (
        Group(title=title, facts=tuple(_read(fields, call))) for title, fields in _FIELDS.items()
    )
    return (*groups, *list_limits(call.entry.rate_limits, call.entry.limited_by))


def part_facts(groups: Iterable[Group]) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Return the groups without their empty facts, and the labels of the empty facts."""
    known, empty = [], []
    for group in groups:
        facts = tuple(each for each in group.facts if each.text != UNKNOWN)
        empty += [each.label for each in group.facts if each.text == UNKNOWN]
        if facts:
            known.append(Group(title=group.title, facts=facts))
    return tuple(known), tuple(empty)


def _list_prompt(call: Call) -> Iterator[Fact]:
    tokens = call.entry.tokens
    for each in PROMPT_CLASSES:
        yield make_fact(each.title, each.name, getattr(tokens, each.name))
    share = format_cache_share(tokens)
    note = "" if share == UNKNOWN else f"{share} from cache"
    yield Fact("Prompt total", format_count(tokens.prompt), note=note)
    for each in OTHER_CLASSES:
        yield make_fact(each.title, each.name, getattr(tokens, each.name))


def _list_container(call: Call) -> Iterator[Fact]:
    if call.entry.container_unnamed:
        text = "not named: the response was cut"
        yield Fact("Container", text, calls_address("container_unnamed", 1))
    else:
        yield make_fact("Container", "container_id", call.entry.container_id)


def _list_session(call: Call) -> Iterator[Fact]:
    address = "" if call.session is None else session_address(call.session)
    yield Fact("Session", call.session or UNKNOWN, address)


def _list_billing(call: Call) -> Iterator[Fact]:
    is_overage = call.entry.overage and call.entry.billing != "customer"
    yield Fact(
        "Billing", _OVERAGE if is_overage else _BILLING.get(call.entry.billing or "", UNKNOWN)
    )


def _list_speed(call: Call) -> Iterator[Fact]:
    speed = call.entry.output_tokens_per_s
    yield Fact("Output speed", UNKNOWN if speed is None else f"{speed:,.1f} tokens per second")


def _list_kind(call: Call) -> Iterator[Fact]:
    yield Fact("Response type", "event stream" if call.entry.streamed else "single body")


def _list_source(call: Call) -> Iterator[Fact]:
    source = call.entry.usage_source
    yield Fact("Usage source", _SOURCES.get(source, source))


def _list_tags(call: Call) -> Iterator[Fact]:
    tags = ", ".join(parse_tags(call.entry.tags))
    yield Fact("Tags", tags or UNKNOWN, note="as the client says")


def _list_continued(call: Call) -> Iterator[Fact]:
    message_id = call.entry.thread_previous_id
    href = "" if message_id is None else calls_address("message_id", message_id)
    yield Fact("Continues message", message_id or UNKNOWN, href)


def _list_sizes(call: Call) -> Iterator[Fact]:
    entry = call.entry
    for label, sent_bytes, body in (
        ("Request", entry.request_bytes, call.request),
        ("Response", entry.response_bytes, call.response),
    ):
        yield make_fact(f"{label}, on the wire", "sent_bytes", sent_bytes)
        yield make_fact(f"{label}, decoded", "decoded_bytes", body.length if body else None)


def _read(fields: "Sequence[_Field]", call: Call) -> Iterator[Fact]:
    for each in fields:
        if callable(each):
            yield from each(call)
        else:
            label, column = each
            yield make_fact(label, column, getattr(call.entry, column))


# A label with the field of an entry, or what makes facts of a call.
type _Field = tuple[str, str] | Callable[[Call], Iterable[Fact]]
_FIELDS: Mapping[str, Sequence[_Field]] = {
    "Call": (
        ("Outcome", "outcome"),
        ("Status", "status_code"),
        ("Error type", "error_type"),
        ("Stop reason", "stop_reason"),
        ("Refusal category", "refusal_category"),
        ("Model", "model"),
        ("Requested model", "request_model"),
        _list_kind,
        ("Body notes", "body_notes"),
        ("Entry", "entry_id"),
    ),
    "Tokens": (
        _list_prompt,
        ("Reasoning, in output", "thinking_tokens"),
        ("One-hour, in cache writes", "cache_write_1h_tokens"),
        ("Web searches", "web_search_requests"),
        _list_source,
    ),
    "Time": (
        ("Duration", "duration_ms"),
        ("Time to first byte", "ttfb_ms"),
        ("Proxy overhead", "proxy_overhead_ms"),
        _list_speed,
    ),
    "Upstream": (
        ("Upstream of the endpoint", "upstream"),
        ("Request id", "upstream_request_id"),
        ("Message id", "message_id"),
        ("Service tier", "service_tier"),
        ("Speed", "speed"),
        ("Inference region", "inference_geo"),
        _list_billing,
        ("Credential fingerprint", "credential_hmac"),
        ("Organization", "upstream_organization_id"),
        ("Workspace", "workspace_id"),
        ("User profile", "user_profile_id"),
        ("Product", "product"),
        _list_container,
        ("API version", "api_version"),
        ("Betas", "betas"),
    ),
    "Client": (
        ("Endpoint", "slug"),
        ("Proxy endpoint", "proxy_endpoint_id"),
        _list_session,
        ("Agent", "agent_id"),
        ("Parent agent", "parent_agent_id"),
        ("Request class", "request_class"),
        ("Prompt", "prompt_id"),
        lambda call: list_hints(call.entry.client_hints),
        ("User", "attributed_user"),
        ("Project", "project"),
        _list_tags,
        ("Attributes left out", "attributes_left_out"),
        ("Run", "run_id"),
        ("Client", "client"),
        ("Retry", "retry_count"),
        ("Path and query", "path_query"),
    ),
    "Request": (
        ("Effort", "effort"),
        ("Thinking budget", "thinking_budget"),
        ("Cache lifetime", "cache_ttl"),
        ("Message thread", "thread"),
        _list_continued,
        ("Messages", "message_count"),
        ("Tools", "tool_count"),
        ("Output limit", "max_tokens"),
    ),
    "Size": (_list_sizes,),
}
