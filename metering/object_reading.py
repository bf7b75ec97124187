"""Reading and pricing managed sessions and dreams in responses of the upstream."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

import orjson

from metering.billed_passes import make_call
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.upstream_objects import ObjectKind, UpstreamObject
from metering.usage import read_usage
from wire.json_reading import as_object, as_objects, clean_text, parse_object

# "Pricing" of the vendor's documentation, as read on 2026-11-23: $0.08 for an hour in which a session runs.
CENTS_PER_ACTIVE_SECOND = Decimal(8) / 3600
MAX_SECONDS = 10**9


def read_objects(
    kind: ObjectKind, body: bytes, prices: PriceTable, at: datetime
) -> list[UpstreamObject]:
    """Return the objects of a kind in a response: one, or those of a list. Never raises.

    Prices are those of the day of ``at`` for an object that does not say when it was created."""
    return [_read(kind, each, prices, at) for each in _find(kind, parse_object(body) or {})]


def _find(kind: ObjectKind, document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for each in (document, *as_objects(document.get("data"))):
        is_one = each.get("type") == kind and isinstance(each.get("usage"), dict)
        if is_one and clean_text(each.get("id")) is not None:
            yield each


def _read(
    kind: ObjectKind, document: Mapping[str, object], prices: PriceTable, at: datetime
) -> UpstreamObject:
    counts = as_object(document.get("usage"))
    model, speed = _find_model(document)
    # The counts have the names that those of a message have.
    like_a_message = {"model": model, "usage": counts | {"speed": speed}}
    usage = read_usage(200, "application/json", orjson.dumps(like_a_message), is_complete=True)
    created_at = _read_instant(document.get("created_at"))
    call = make_call(
        usage,
        created_at=datetime.fromisoformat(created_at) if created_at else at,
        outcome="complete",
        status_code=200,
    )
    # A sum of many prompts says nothing of the size of one, which may have a price of its own.
    call.items = [item._replace(prompt_tokens=0) for item in call.items]
    cost_cents = price_call(call, prices)[1]
    seconds = _read_seconds(counts.get("active_seconds"))
    if cost_cents is not None and seconds is not None:
        cost_cents += Decimal(repr(seconds)) * CENTS_PER_ACTIVE_SECOND
    return UpstreamObject(
        object_id=clean_text(document.get("id")) or "",
        kind=kind,
        created_at=created_at,
        ended_at=_read_instant(document.get("ended_at")),
        status=clean_text(document.get("status")),
        model=model,
        session_id=clean_text(document.get("session_id")),
        tokens=usage.tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        web_search_requests=usage.web_search_requests,
        active_seconds=seconds,
        cost_cents=cost_cents,
        list_cost_cents=_read_list_cost(counts.get("list_cost")),
    )


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
