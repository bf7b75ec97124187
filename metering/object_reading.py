"""Reading managed sessions and dreams, and what they have used, in responses of the upstream.

The events of a session have its counts too, and nothing else of it:

    {"type": "session.usage", "processed_at": "…", "usage": {"input_tokens": 12, "active_seconds": 3.5, …}}
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from metering.token_counts import UNKNOWN
from metering.upstream_objects import ObjectKind, UpstreamObject
from metering.usage import read_tokens
from wire.envelope import is_document
from wire.json_reading import as_object, as_objects, clean_text, parse_object
from wire.sse import parse_events
from wire.usage_object import UsageObject

MAX_SECONDS = 10**9
_USAGE_EVENT = "session.usage"


def read_objects(kind: ObjectKind, body: bytes) -> list[UpstreamObject]:
    """Return the objects of a kind in a response: one, or those of a list. Never raises."""
    return [_read(kind, each) for each in _find(kind, parse_object(body) or {})]


def read_session_usage(body: bytes) -> tuple[str, Mapping[str, object]] | None:
    """Return when the latest counts among events of a session were taken, and these counts.

    The events are a list, or a stream that may be cut. None where no event has counts. Never raises."""
    if is_document(body):
        events = as_objects((parse_object(body) or {}).get("data"))
    else:
        found = parse_events(body, (_USAGE_EVENT.encode(),))
        events = [parse_object(event.data) or {} for event in found]
    counted = [
        (at, as_object(event.get("usage")))
        for event in events
        if event.get("type") == _USAGE_EVENT
        and isinstance(event.get("usage"), dict)
        and (at := _read_instant(event.get("processed_at"))) is not None
    ]
    return max(counted, key=lambda each: each[0], default=None)


def make_session(session_id: str) -> UpstreamObject:
    """Return a managed session of which nothing but the id is known."""
    return UpstreamObject(
        object_id=session_id,
        kind="session",
        created_at=None,
        ended_at=None,
        status=None,
        model=None,
        speed=None,
        session_id=None,
        tokens=UNKNOWN,
        cache_write_1h_tokens=0,
        web_search_requests=None,
        active_seconds=None,
        list_cost_cents=None,
    )


def set_counts(found: UpstreamObject, counts: Mapping[str, object]) -> UpstreamObject:
    """Return an object with the counts of a usage object, whose names are those in a message."""
    usage = UsageObject.read(counts)
    tokens, cache_write_1h_tokens = read_tokens(usage)
    return replace(
        found,
        tokens=tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
        web_search_requests=usage.web_searches,
        active_seconds=_read_seconds(counts.get("active_seconds")),
        list_cost_cents=_read_list_cost(counts.get("list_cost")),
    )


def _find(kind: ObjectKind, document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for each in (document, *as_objects(document.get("data"))):
        is_one = each.get("type") == kind and isinstance(each.get("usage"), dict)
        if is_one and clean_text(each.get("id")) is not None:
            yield each


def _read(kind: ObjectKind, document: Mapping[str, object]) -> UpstreamObject:
    model, speed = _find_model(document)
    found = replace(
        make_session(clean_text(document.get("id")) or ""),
        kind=kind,
        created_at=_read_instant(document.get("created_at")),
        ended_at=_read_instant(document.get("ended_at")),
        status=clean_text(document.get("status")),
        model=model,
        speed=speed,
        session_id=clean_text(document.get("session_id")),
    )
    return set_counts(found, as_object(document.get("usage")))


def _find_model(document: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return the model that all tokens are of, and its speed.

    There is none where other agents may have models of their own."""
    agent = as_object(document.get("agent"))
    if agent.get("multiagent"):
        return None, None
    model = agent.get("model") if agent else document.get("model")
    fields = as_object(model)
    return clean_text(model) or clean_text(fields.get("id")), clean_text(fields.get("speed"))


def _read_instant(value: object) -> str | None:
    """Return an instant as those of entries are written, so that they compare as text."""
    try:
        instant = datetime.fromisoformat(clean_text(value) or "")
        utc = instant.astimezone(UTC) if instant.tzinfo else None
    except (ValueError, OverflowError):
        return None
    return (
        None if utc is None else f"{utc.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    )


def _read_seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= MAX_SECONDS else None


def _read_list_cost(value: object) -> Decimal | None:
    """Return the cents of an amount, which the upstream writes as text; None in another currency."""
    amount = as_object(value)
    if str(amount.get("currency")).upper() != "USD":
        return None
    try:
        cents = Decimal(str(amount.get("amount")))
    except InvalidOperation:
        return None
    return cents if cents.is_finite() and cents >= 0 else None
