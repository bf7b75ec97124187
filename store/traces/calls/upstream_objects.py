"""The table of managed sessions and dreams: one row for each, with the latest counts."""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from metering import token_counts
from metering.token_counts import TokenCounts
from metering.upstream_objects import UpstreamObject
from store.traces.calls.costs import from_real, to_real

_PLAIN = (
    "object_id",
    "kind",
    "created_at",
    "ended_at",
    "status",
    "model",
    "speed",
    "session_id",
    "cache_write_1h_tokens",
    "web_search_requests",
    "active_seconds",
)
_MONEY = ("cost_cents", "list_cost_cents")
_OF_READING = ("proxy_endpoint_id", "slug", "credential_hmac", "read_at", "upstream")
_COLUMNS = (*_OF_READING, *_PLAIN, *token_counts.NAMES, *_MONEY)
# Responses are not stored in the order in which they came.
_UPSERT = (
    f"insert into upstream_objects ({', '.join(_COLUMNS)})"  # noqa: S608 - our own names
    f" values ({', '.join('?' * len(_COLUMNS))}) on conflict (object_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name != "object_id")
    + " where excluded.read_at >= upstream_objects.read_at"
)
_SELECT = f"select {', '.join(_COLUMNS)} from upstream_objects"  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The response that reported objects: its instant, endpoint, credential and upstream.

    ``upstream`` is None for that of the service."""

    read_at: str
    proxy_endpoint_id: str
    slug: str
    credential_hmac: str | None
    upstream: str | None = None


def write_objects(
    connection: sqlite3.Connection, reading: Reading, objects: Iterable[UpstreamObject]
) -> None:
    """Store objects, in place of earlier rows for them. The caller holds the write lock."""
    connection.executemany(
        _UPSERT,
        [
            (
                *(getattr(reading, name) for name in _OF_READING),
                *(getattr(each, name) for name in _PLAIN),
                *(getattr(each.tokens, name) for name in token_counts.NAMES),
                *(to_real(getattr(each, name)) for name in _MONEY),
            )
            for each in objects
        ],
    )


def read_object(connection: sqlite3.Connection, object_id: str) -> UpstreamObject | None:
    """Return the stored state of a managed session or dream, or None."""
    found = _read_all(connection, f"{_SELECT} where object_id = ?", (object_id,))
    return next((each for _, each in found), None)


def list_objects(
    connection: sqlite3.Connection, *, only_unpriced: bool
) -> list[tuple[Reading, UpstreamObject]]:
    """Return all objects, or those without a cost, each with the response that last reported it."""
    wanted = "cost_cents is null" if only_unpriced else "true"
    return list(_read_all(connection, f"{_SELECT} where {wanted}"))


def _read_all(
    connection: sqlite3.Connection, sql: str, values: tuple[str, ...] = ()
) -> Iterator[tuple[Reading, UpstreamObject]]:
    for row in connection.execute(sql, values):
        named: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
        named |= {name: from_real(named[name]) for name in _MONEY}
        tokens = TokenCounts(**{name: named[name] for name in token_counts.NAMES})
        yield (
            Reading(**{name: named[name] for name in _OF_READING}),
            UpstreamObject(tokens=tokens, **{name: named[name] for name in (*_PLAIN, *_MONEY)}),
        )
