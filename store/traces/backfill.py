"""Filling columns of stored calls that are newer than the calls, from the bodies of these.

Costs that older rules came to are corrected by the way.

``backfills`` has a row for each such work that a migration began: ``next_id`` is the newest call that is
still to be read. It moves down in the transaction that writes, so a process that is killed repeats
nothing, and nothing is written twice. Calls that retention removes meanwhile are skipped.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from metering.entry import CostItem, Outcome, UsageSource
from store import database
from store.traces import bodies, costs, rate_limits
from store.traces.bodies import MissingPieceError, StoredBodies
from store.traces.costs import NewCost

BODY_FIELDS = "body fields"
BUSY_TIMEOUT_S = 5.0
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


_SELECT = (
    f"select {', '.join(StoredCall._fields)} from usage where id <= ? order by id desc limit 1"  # noqa: S608 - our own names
)


def find_next(connection: sqlite3.Connection) -> int | None:
    """Return the id of the newest call that is still to be read, None when all are."""
    row = connection.execute(
        "select next_id from backfills where name = ?", (BODY_FIELDS,)
    ).fetchone()
    return None if row is None else row[0]


def has_work(connection: sqlite3.Connection) -> bool:
    """Return whether a work that a migration began is still to be done."""
    return connection.execute("select 1 from backfills").fetchone() is not None


def count_left(path: Path) -> int:
    """Return how many calls of a trace database are still to be read. Raises sqlite3.Error."""
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        known = connection.execute(
            "select 1 from sqlite_schema where name = 'backfills'"
        ).fetchone()
        if known is None:
            return 0
        (count,) = connection.execute(
            "select count(*) from usage where id <= (select max(next_id) from backfills)"
        ).fetchone()
        return int(count)


def read_call(connection: sqlite3.Connection, up_to_id: int) -> Stored | None:
    """Return the newest call up to an id, or None where there is none."""
    with database.snapshot(connection):
        row = connection.execute(_SELECT, (up_to_id,)).fetchone()
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
        hours.write(connection)
        if next_id is None:
            connection.execute("delete from backfills where name = ?", (BODY_FIELDS,))
        else:
            connection.execute(
                "update backfills set next_id = ? where name = ?", (next_id, BODY_FIELDS)
            )
