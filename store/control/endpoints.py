"""Proxy endpoints: rows of ``proxy_endpoints``.

Functions that change something must run in a transaction that holds the write lock
(``ControlDatabase.transaction``): no other process can then change what they have read before they
write, and times of creation are in the order of commits.

A slug belongs to one organisation for good, together with what owners decided about it. Creating an
endpoint with the slug of a deleted one restores the deleted row, with its id, budget, spend, rule
of retention and ``metadata_only``. Otherwise members could avoid these by deleting the endpoint."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidSlugError, LimitReachedError, NotFoundError, SlugTakenError
from runtime.setting_values import SERVICE_UPSTREAM
from runtime.settings import Streaming
from runtime.suggestions import suggest
from store.control import slugs
from store.control.audit import Activity
from store.control.names import check_name
from store.control.records import Id, Instant, Shared, Table
from store.pagination import START, Position

# "service": follow the service's own setting.
type StreamingChange = Streaming | Literal["service"]
# The name of an upstream, or "service": that of the service.
type UpstreamChange = str

SLUGS_PER_ENDPOINT = 10  # how many an organisation may use up for each endpoint it may have

CREATED = Activity("endpoint.create", "created the endpoint")
CHANGED = Activity("endpoint.update", "changed the endpoint")
DELETED = Activity("endpoint.delete", "deleted the endpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyEndpoint:
    """A proxy endpoint. ``streaming`` is None if the service's setting applies; ``upstream`` is None if
    calls go to the upstream of the service."""

    id: Id
    organization_id: Id
    name: str
    slug: Id
    streaming: Streaming | None
    metadata_only: bool
    created_at: Instant
    upstream: Id | None = None


TABLE = Table("proxy_endpoints", ProxyEndpoint, shared=Shared(added={"deleted_at": Instant | None}))


def list_after(
    db: sqlite3.Connection, organization_id: str, position: Position = START, limit: int = -1
) -> Sequence[ProxyEndpoint]:
    """Return the endpoints after a position, newest first, up to ``limit`` (-1: all)."""
    return TABLE.read(
        db,
        "where organization_id = ? and deleted_at is null and (created_at, id) < (?, ?)"
        " order by created_at desc, id desc limit ?",
        organization_id,
        position.created_at,
        position.id,
        limit,
    )


def list_with_upstream(db: sqlite3.Connection) -> Sequence[ProxyEndpoint]:
    """Return the endpoints of all organisations that have an upstream of their own."""
    return TABLE.read(db, "where upstream is not null and deleted_at is null order by slug")


def get(db: sqlite3.Connection, organization_id: str, id_or_slug: str) -> ProxyEndpoint:
    """Return an endpoint of the organisation. Raises NotFoundError."""
    endpoint = TABLE.find(
        db,
        "where organization_id = ? and (id = ? or slug = ?) and deleted_at is null"
        " order by id = ? desc limit 1",  # a slug may look like an id
        organization_id,
        id_or_slug,
        id_or_slug,
        id_or_slug,
    )
    if endpoint is None:
        raise make_not_found(id_or_slug)
    return endpoint


def make_not_found(id_or_slug: str, known: Iterable[str] = ()) -> NotFoundError:
    """Return the error for an unknown endpoint; its message suggests similar slugs from ``known``."""
    return NotFoundError(
        f"there is no proxy endpoint {id_or_slug!r}{suggest(id_or_slug, known)};"
        " `taximeter endpoints list` shows them"
    )


def create(
    db: sqlite3.Connection,
    organization_id: str,
    name: str,
    slug: str | None = None,
    streaming: Streaming | None = None,
    *,
    metadata_only: bool | None = None,
    upstream: UpstreamChange | None = None,
    check_earlier: Callable[[ProxyEndpoint], None] = lambda _: None,
) -> ProxyEndpoint:
    """Create an endpoint, or restore the deleted one with this slug.

    Without ``slug`` one is made from the name, with a suffix if that slug is taken. If
    ``metadata_only`` or ``upstream`` is None, a restored endpoint keeps its value; a new one stores
    bodies and uses the upstream of the service. ``check_earlier`` raises if the deleted endpoint must
    not be restored. Raises InvalidInputError, InvalidSlugError, SlugTakenError, and what
    ``check_earlier`` raises."""
    chosen = _choose_slug(db, organization_id, name, slug)
    earlier = _find_deleted(db, organization_id, chosen)
    if earlier is not None:
        check_earlier(earlier)
    if metadata_only is None:
        metadata_only = earlier is not None and earlier.metadata_only
    before = None if earlier is None else earlier.upstream
    endpoint = ProxyEndpoint(
        id=clock.new_id() if earlier is None else earlier.id,
        organization_id=organization_id,
        name=check_name(name, "an endpoint"),
        slug=chosen,
        streaming=streaming,
        metadata_only=metadata_only,
        created_at=clock.format_ms(clock.now()),
        upstream=before if upstream is None else _name_upstream(upstream),
    )
    TABLE.insert(db, TABLE.make_row(endpoint) | {"deleted_at": None}, key="id")
    return endpoint


def _name_upstream(chosen: UpstreamChange) -> str | None:
    return None if chosen == SERVICE_UPSTREAM else chosen


def _find_deleted(db: sqlite3.Connection, organization_id: str, slug: str) -> ProxyEndpoint | None:
    """Return the most recently deleted endpoint of the organisation with this slug, or None."""
    return TABLE.find(
        db,
        "where organization_id = ? and slug = ? and deleted_at is not null"
        " order by deleted_at desc, id desc limit 1",
        organization_id,
        slug,
    )


def check_count(db: sqlite3.Connection, organization_id: str, most: int) -> None:
    """Check that the organisation may create another endpoint. Raises LimitReachedError.

    Deleted endpoints are limited too, since their slugs stay reserved: otherwise one organisation could
    take every short name."""
    live, slugs = db.execute(
        "select count(*) filter (where deleted_at is null), count(distinct slug)"
        " from proxy_endpoints where organization_id = ?",
        (organization_id,),
    ).fetchone()
    if live >= most:
        raise LimitReachedError(
            f"this organisation has {format_count(live)} proxy endpoints and may not have more; delete some, or ask"
            " the operator (TAXIMETER_MAX_ENDPOINTS)"
        )
    if slugs >= SLUGS_PER_ENDPOINT * most:
        raise LimitReachedError(
            f"this organisation has used {format_count(slugs)} slugs, which stay reserved for it, and may not use"
            " more; ask the operator (TAXIMETER_MAX_ENDPOINTS)"
        )


def update(
    db: sqlite3.Connection,
    organization_id: str,
    id_or_slug: str,
    *,
    name: str | None = None,
    streaming: StreamingChange | None = None,
    metadata_only: bool | None = None,
    upstream: UpstreamChange | None = None,
) -> ProxyEndpoint:
    """Update the fields that are not None. Raises NotFoundError, InvalidInputError."""
    endpoint = get(db, organization_id, id_or_slug)
    if name is not None:
        endpoint = replace(endpoint, name=check_name(name, "an endpoint"))
    if streaming is not None:
        endpoint = replace(endpoint, streaming=None if streaming == "service" else streaming)
    if metadata_only is not None:
        endpoint = replace(endpoint, metadata_only=metadata_only)
    if upstream is not None:
        endpoint = replace(endpoint, upstream=_name_upstream(upstream))
    db.execute(
        "update proxy_endpoints set name = :name, streaming = :streaming,"
        " metadata_only = :metadata_only, upstream = :upstream where id = :id",
        TABLE.make_row(endpoint),
    )
    return endpoint


def delete(db: sqlite3.Connection, organization_id: str, id_or_slug: str) -> ProxyEndpoint:
    """Mark an endpoint as deleted and return it. Its row stays, with its budget and rules.

    Raises NotFoundError."""
    endpoint = get(db, organization_id, id_or_slug)
    db.execute(
        "update proxy_endpoints set deleted_at = ? where id = ?",
        (clock.format_ms(clock.now()), endpoint.id),
    )
    return endpoint


def _choose_slug(
    db: sqlite3.Connection, organization_id: str, name: str, wanted: str | None
) -> str:
    """Return the slug for a new endpoint: ``wanted``, or one made from the name.

    Raises InvalidSlugError, SlugTakenError."""
    if wanted is None:
        slug = plain = slugs.make_slug(name)
        while _is_taken(db, slug, organization_id):
            slug = slugs.add_suffix(plain)
        return slug
    if not slugs.is_slug(wanted):
        raise InvalidSlugError(
            f"{wanted!r} is not a valid slug: use 1 to {slugs.MAX_LENGTH} lower-case letters, digits"
            " and single hyphens between them",
            "slug",
        )
    if _is_taken(db, wanted, organization_id):
        raise SlugTakenError(f"the slug {wanted!r} is taken; choose another", "slug")
    return wanted


def _is_taken(db: sqlite3.Connection, slug: str, organization_id: str) -> bool:
    return (
        db.execute(
            "select 1 from proxy_endpoints"
            " where slug = ? and (deleted_at is null or organization_id <> ?)",
            (slug, organization_id),
        ).fetchone()
        is not None
    )
