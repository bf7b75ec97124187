"""Managed sessions and dreams of upstream, which say what they have used in all.

The events of a session have its counts too, and nothing else of it:

    {"type": "session.usage", "processed_at": "…", "usage": {"input_tokens": 12, "active_seconds": 3.5, …}}
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

from wire.envelope import is_document
from wire.json_reading import as_object, as_objects, clean_text, parse_object
from wire.sse import parse_events
from wire.usage_object import UsageObject

MAX_SECONDS = 10**9
_USAGE_EVENT = "session.usage"

type ObjectKind = Literal["session", "dream"]
type Fields = Mapping[str, object]


class ObjectUsage(NamedTuple):
    """The counts of an object so far, the seconds it ran, and its list price in cents from upstream."""

    counts: UsageObject
    active_seconds: float | None
    list_cost_cents: Decimal | None


class ManagedObject(NamedTuple):
    """A managed session or dream. ``model`` is None if several models or none are named.

    Instants have the form of those of entries."""

    id: str
    kind: ObjectKind
    created_at: str | None
    ended_at: str | None
    status: str | None
    model: str | None
    speed: str | None
    session_id: str | None
    usage: ObjectUsage


def list_objects(kind: ObjectKind, body: bytes) -> list[ManagedObject]:
    """Return the objects of a kind in a response: one object, or a list. Never raises."""
    return list(_list_objects(kind, parse_object(body) or {}))


def find_session_usage(body: bytes) -> tuple[str, ObjectUsage] | None:
    """Return the instant and the counts of the latest usage event of a session, or None.

    The events are a list, or a stream that may be cut off. Never raises."""
    if is_document(body):
        events = as_objects((parse_object(body) or {}).get("data"))
    else:
        found = parse_events(body, (_USAGE_EVENT.encode(),))
        events = [parse_object(event.data) or {} for event in found]
    counted = [
        (at, usage)
        for event in events
        if event.get("type") == _USAGE_EVENT
        and isinstance(usage := event.get("usage"), dict)
        and (at := _read_instant(event.get("processed_at"))) is not None
    ]
    if not counted:
        return None
    at, latest = max(counted, key=lambda each: each[0])
    return at, _read_usage(latest)


def _list_objects(kind: ObjectKind, document: Fields) -> Iterator[ManagedObject]:
    for each in (document, *as_objects(document.get("data"))):
        usage, object_id = each.get("usage"), clean_text(each.get("id"))
        if each.get("type") != kind or not isinstance(usage, dict) or object_id is None:
            continue
        model, speed = _find_model(each)
        yield ManagedObject(
            object_id,
            kind,
            _read_instant(each.get("created_at")),
            _read_instant(each.get("ended_at")),
            clean_text(each.get("status")),
            model,
            speed,
            clean_text(each.get("session_id")),
            _read_usage(usage),
        )


def _read_usage(usage: Fields) -> ObjectUsage:
    return ObjectUsage(
        UsageObject.read(usage),
        _read_seconds(usage.get("active_seconds")),
        _read_list_cost(usage.get("list_cost")),
    )


def _find_model(document: Fields) -> tuple[str | None, str | None]:
    """Return the model of all tokens, and its speed; each None if unknown.

    Both are None if other agents may have models of their own."""
    agent = as_object(document.get("agent"))
    if agent.get("multiagent"):
        return None, None
    model = agent.get("model") if agent else document.get("model")
    fields = as_object(model)
    return clean_text(model) or clean_text(fields.get("id")), clean_text(fields.get("speed"))


def _read_instant(value: object) -> str | None:
    """Return an instant in the form of those of entries, which compare as text, or None."""
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
    """Return an amount, which upstream writes as text, in cents; None in another currency or if invalid."""
    amount = as_object(value)
    if str(amount.get("currency")).upper() != "USD":
        return None
    try:
        cents = Decimal(str(amount.get("amount")))
    except InvalidOperation:
        return None
    return cents if cents.is_finite() and cents >= 0 else None
