"""Reading stored streams that were cut before there were estimates, and storing their estimates.

No index has the calls whose usage is partial, so they are looked for among ``WINDOW`` calls at a time.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from store import database
from store.traces import backfill_progress
from store.traces.backfill import SELECT, Stored, read_one
from store.traces.backfill_progress import CUT_STREAMS
from store.traces.calls import costs
from store.traces.calls.costs import NewCost

WINDOW = 2_000  # calls: some ms

_CUT = (
    f"{SELECT} id > ? and id <= ? and usage_source = 'partial' and streamed"
    " order by id desc limit 1"
)
_COMPLETE = (
    f"{SELECT} model = ? and usage_source = 'final' order by created_at desc limit 1 offset ?"
)


class Window(NamedTuple):
    """The newest cut stream among some calls, if there is one. ``next_id`` is the newest call that was
    not looked at, None where there is none."""

    found: Stored | None
    next_id: int | None


def read_window(connection: sqlite3.Connection, up_to_id: int) -> Window:
    """Return the newest stream that was cut among the calls up to an id."""
    after = max(0, up_to_id - WINDOW)
    found = read_one(connection, _CUT, (after, up_to_id))
    (oldest_id,) = connection.execute("select coalesce(min(id), 0) from usage").fetchone()
    next_id = after if found is None else found.call.id - 1
    return Window(found, next_id if next_id >= max(1, oldest_id) else None)


def read_complete(connection: sqlite3.Connection, model: str, number: int) -> Stored | None:
    """Return a complete call of a model, counted from the newest one, or None past the last one."""
    return read_one(connection, _COMPLETE, (model, number))


def write_estimates(
    connection: sqlite3.Connection, estimates: Sequence[NewCost], next_id: int | None
) -> None:
    """Store the costs of streams that were cut, and note how far this is; None after the last one."""
    with database.immediate(connection):
        costs.write_costs(connection, estimates)
        backfill_progress.write_next(connection, CUT_STREAMS, next_id)
