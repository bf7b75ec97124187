"""Booking entries anew in the hourly sums that were stored when these had no passes.

The migration to the newer sums keeps the old ones: without client, credential and billing, and with all
of a call booked to the model of the call. Then each entry is taken out of them and booked anew, newest
first, a few in each transaction, which also notes how far that is (``backfill_progress``). So readers see
each call once at any moment. What retention had removed stays as it was.
"""

import sqlite3

from store.traces import backfill_progress
from store.traces.backfill_progress import HOURLY_SUMS
from store.traces.calls.costs import read_booked
from store.traces.sums.rollup import SUMS, HourKey, Tally

CALLS = 100  # take some 10 ms


def rebook_some(connection: sqlite3.Connection) -> bool:
    """Book a few entries anew. Return whether there may be more. Raises sqlite3.Error."""
    return backfill_progress.take_some(
        connection,
        HOURLY_SUMS,
        CALLS,
        lambda ids: _rebook(connection, ids),
        lambda: _remove_empty(connection),
    )


def _rebook(connection: sqlite3.Connection, ids: list[int]) -> None:
    tally = Tally()
    for booked in read_booked(connection, ids):
        tally.add_as_before(booked.call, booked.tokens, sign=-1)
        tally.add(booked.call, booked.items)
    tally.write(connection)


def _remove_empty(connection: sqlite3.Connection) -> None:
    """Remove the rows of which nothing is left."""
    unknown = " and ".join(f"{name} = ''" for name in HourKey._fields[4:])
    nothing = " and ".join(f"abs({name}) < 1e-6" for name in SUMS)
    connection.execute(f"delete from usage_hourly where {unknown} and {nothing}")  # noqa: S608 - our own names
