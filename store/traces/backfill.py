"""Filling columns of stored calls that are newer than the calls, from the bodies of these.

Costs that older rules came to are corrected by the way. ``backfill_progress`` knows which calls are
still to be read. Calls that retention removes meanwhile are skipped.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from metering.entry import CostItem, Outcome, UsageSource
from metering.request_facts import CacheTtl
from store import database
from store.traces import backfill_progress
from store.traces.backfill_progress import BODY_FIELDS
from store.traces.bodies import bodies
from store.traces.bodies.bodies import MissingPieceError, StoredBodies
from store.traces.calls import costs, rate_limits
from store.traces.calls.costs import NewCost
from store.traces.sessions import session_sums

# A larger body is not read: others would wait for it, and its fields stay null.
MAX_BODY_BYTES = 8 * 1024 * 1024


class StoredCall(NamedTuple):
    """The columns of a stored call that filling it depends on."""

    id: int
    created_at: str
    session_id: str | None
    agent_id: str | None
    credential_hmac: str | None
    status_code: int | None
    retry_count: int | None
    streamed: int
    outcome: Outcome
    usage_source: UsageSource
    output_tokens: int | None
    duration_ms: float | None
    ttfb_ms: float | None
    cost_cents: float | None
    request_body_length: int | None
    response_body_length: int | None
    model: str | None
    cache_ttl: CacheTtl | None
    body_notes: str | None


class Stored(NamedTuple):
    """All that is read of a call. Bodies that are too large or damaged are left out."""

    call: StoredCall
    cost_items: tuple[CostItem, ...]
    bodies: StoredBodies


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A call that was read, with the columns to fill where they are null. ``cost`` is its cost where
    that was another one."""

    call: StoredCall
    columns: Mapping[str, Any]
    cost: NewCost | None = None


SELECT = f"select {', '.join(StoredCall._fields)} from usage where "  # noqa: S608 - our own names
_NEWEST = f"{SELECT} id <= ? order by id desc limit 1"


def read_call(connection: sqlite3.Connection, up_to_id: int) -> Stored | None:
    """Return the newest call up to an id, or None where there is none."""
    return read_one(connection, _NEWEST, (up_to_id,))


def read_one(connection: sqlite3.Connection, sql: str, values: Sequence[object]) -> Stored | None:
    """Return the first call that a query finds, whose columns are those of ``StoredCall``."""
    with database.snapshot(connection):
        row = connection.execute(sql, values).fetchone()
        if row is None:
            return None
        call = StoredCall(*row)
        items = costs.read_items(connection, call.id)
        return Stored(call, items, _read_bodies(connection, call))


def _read_bodies(connection: sqlite3.Connection, call: StoredCall) -> StoredBodies:
    if max(call.request_body_length or 0, call.response_body_length or 0) <= MAX_BODY_BYTES:
        with suppress(MissingPieceError):
            return bodies.read_bodies(connection, call.id)
    return StoredBodies(request=None, response=None)


def write_filled(
    connection: sqlite3.Connection, filled: Sequence[Filled], next_id: int | None
) -> None:
    """Fill the columns of calls, correct their costs, and note how far this is.

    The calls are counted in the hours of rate limits. ``next_id`` is None after the last call."""
    hours = rate_limits.Hours()
    with database.immediate(connection):
        for each in filled:
            hours.add(each.call)
            names = [name for name, value in each.columns.items() if value is not None]
            if names:
                values = ", ".join(f"{name} = coalesce({name}, :{name})" for name in names)
                connection.execute(
                    f"update usage set {values} where id = :id",  # noqa: S608 - our own names
                    {**each.columns, "id": each.call.id},
                )
        costs.write_costs(connection, [each.cost for each in filled if each.cost is not None])
        # Titles may have been filled.
        session_sums.book(connection, [each.call.id for each in filled], sign=0)
        hours.write(connection)
        backfill_progress.write_next(connection, BODY_FIELDS, next_id)
