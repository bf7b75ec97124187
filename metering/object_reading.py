"""The usage of managed sessions and dreams, as their responses report it."""

from dataclasses import replace

from metering.token_counts import UNKNOWN
from metering.upstream_objects import UpstreamObject
from metering.usage import read_tokens
from wire.managed_objects import ManagedObject, ObjectKind, ObjectUsage, list_objects


def read_objects(kind: ObjectKind, body: bytes) -> list[UpstreamObject]:
    """Return the managed sessions or dreams in a response, with their usage. Never raises."""
    return [_make(each) for each in list_objects(kind, body)]


def make_session(session_id: str) -> UpstreamObject:
    """Return a managed session of which only the id is known."""
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


def set_counts(found: UpstreamObject, usage: ObjectUsage) -> UpstreamObject:
    """Return an object with other counts, which have the same meaning as those of a message."""
    tokens, cache_write_1h_tokens = read_tokens(usage.counts)
    return replace(
        found,
        tokens=tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
        web_search_requests=usage.counts.web_searches,
        active_seconds=usage.active_seconds,
        list_cost_cents=usage.list_cost_cents,
    )


def _make(each: ManagedObject) -> UpstreamObject:
    found = replace(
        make_session(each.id),
        kind=each.kind,
        created_at=each.created_at,
        ended_at=each.ended_at,
        status=each.status,
        model=each.model,
        speed=each.speed,
        session_id=each.session_id,
    )
    return set_counts(found, each.usage)
