"""Managed sessions and dreams: objects of the upstream that count their total usage.

Their counts are cumulative. They come in each response that has the object, so the newest are kept
and none are added up. A session also states its list price, in cents and rounded, and is billed for
the time in which it runs besides its tokens. ``object_reading`` reads these objects,
``object_pricing`` prices them."""

from dataclasses import dataclass
from decimal import Decimal

from metering.token_counts import TokenCounts
from wire.managed_objects import ObjectKind


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamObject:
    """An object with its usage so far. ``ended_at`` is None if it has not ended.

    ``model`` is None if several models or none are named. ``session_id`` is that of the session in
    which a dream runs. ``cost_cents`` is None if a price is unknown; ``list_cost_cents`` is the cost
    that the upstream states."""

    object_id: str
    kind: ObjectKind
    created_at: str | None
    ended_at: str | None
    status: str | None
    model: str | None
    speed: str | None
    session_id: str | None
    tokens: TokenCounts
    cache_write_1h_tokens: int
    web_search_requests: int | None
    active_seconds: float | None
    list_cost_cents: Decimal | None
    cost_cents: Decimal | None = None
