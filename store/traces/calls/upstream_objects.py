"""The table of managed sessions and dreams: one row for each, with the counts that came last."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from metering import token_counts
from metering.upstream_objects import UpstreamObject
from store.traces.calls.costs import to_real

_PLAIN = (
    "object_id",
    "kind",
    "created_at",
    "ended_at",
    "status",
    "model",
    "session_id",
    "cache_write_1h_tokens",
    "web_search_requests",
    "active_seconds",
)
_MONEY = ("cost_cents", "list_cost_cents")
_OF_READING = ("proxy_endpoint_id", "slug", "credential_hmac", "read_at")
_COLUMNS = (*_OF_READING, *_PLAIN, *token_counts.NAMES, *_MONEY)
# Responses are not stored in the order in which they came.
_UPSERT = (
    f"insert into upstream_objects ({', '.join(_COLUMNS)})"  # noqa: S608 - our own names
    f" values ({', '.join('?' * len(_COLUMNS))}) on conflict (object_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name != "object_id")
    + " where excluded.read_at >= upstream_objects.read_at"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The response that objects came in: when, of which endpoint, and by which credential."""

    read_at: str
    proxy_endpoint_id: str
    slug: str
    credential_hmac: str | None


def write_objects(
    connection: sqlite3.Connection, reading: Reading, objects: Iterable[UpstreamObject]
) -> None:
    """Store objects in the place of what was known of them before. The caller holds the write lock."""
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
