"""Booking entries anew in the hourly sums that were stored when these had no passes.

The migration to the newer sums keeps the old ones: without client, credential and billing, and with all
of a call booked to the model of the call. Then each entry is taken out of them and booked anew, newest
first, a few in each transaction, which also moves ``next_id`` in ``backfills`` down. So readers see each
call once at any moment, and a process that is killed repeats nothing. What retention had removed stays as
it was.
"""

import sqlite3

from store.database import immediate
from store.traces.costs import read_booked
from store.traces.rollup import HOURLY_SUMS, SUMS, HourKey, Tally, find_booked_as_before

CALLS = 100  # take some 10 ms


def rebook_some(connection: sqlite3.Connection) -> bool:
    """Book a few entries anew. Return whether there may be more. Raises sqlite3.Error."""
    if find_booked_as_before(connection) is None:
        return False
    with immediate(connection):
        next_id = find_booked_as_before(connection)
        ids = [
            row[0]
            for row in connection.execute(
                "select id from usage where id <= ? order by id desc limit ?", (next_id, CALLS)
            )
        ]
        tally = Tally()
        for booked in read_booked(connection, ids):
            tally.add_as_before(booked.call, booked.tokens, sign=-1)
            tally.add(booked.call, booked.items)
        tally.write(connection)
        if len(ids) < CALLS:
            _finish(connection)
            return False
        connection.execute(
            "update backfills set next_id = ? where name = ?", (ids[-1] - 1, HOURLY_SUMS)
        )
    return True


def _finish(connection: sqlite3.Connection) -> None:
    """Remove the rows of which nothing is left."""
    unknown = " and ".join(f"{name} = ''" for name in HourKey._fields[4:])
    nothing = " and ".join(f"abs({name}) < 1e-6" for name in SUMS)
    connection.execute(f"delete from usage_hourly where {unknown} and {nothing}")  # noqa: S608 - our own names
    connection.execute("delete from backfills where name = ?", (HOURLY_SUMS,))
