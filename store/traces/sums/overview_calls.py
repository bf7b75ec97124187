"""Reading of the sums and timings of a period from its calls, for queries without stored sums.

This takes longer the more calls there are, so it has a time limit, and the newest calls are read
first."""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from metering.attribution import split_tag
from runtime.intervals import HOUR
from store.traces.sessions import unnamed_sessions
from store.traces.sums import call_rows, timings
from store.traces.sums.overview_query import (
    ALL_COLUMNS,
    DAY,
    TAG,
    Cell,
    Found,
    Query,
    format_hour,
    is_value,
)
from store.traces.sums.requested_models import IS_UNNAMED, NAME
from store.traces.sums.rollup import find_product
from store.traces.sums.sum_columns import Sums, add_sums, list_sums
from store.traces.sums.timings import NOTHING, Timing

_PROGRESS_STEPS = 20_000
_OF_CALL = {
    "hour": "substr(u.created_at, 1, 13)",
    "slug": "u.slug",
    "client": "product_of(u.client)",
    "credential_hmac": "coalesce(u.credential_hmac, '')",
    "session_id": f"coalesce({unnamed_sessions.SESSION}, '')",
    "agent_id": "coalesce(u.agent_id, '')",
    "attributed_user": "coalesce(u.attributed_user, '')",
    "project": "coalesce(u.project, '')",
}
SQL_OF_CALL = {**_OF_CALL, "billing": call_rows.BILLING}
# The calls with a value, as an index finds them.
_INDEXED = {
    "session": f"u.id in ({unnamed_sessions.CALLS})",
    "user": "u.attributed_user = :user",
    "project": "u.project = :project",
    TAG: "u.id in (select usage_id from tags where name = :tag_name and value = :tag_value)",
}
_UNTAGGED = "u.tags is null"


def read_calls(db: sqlite3.Connection, query: Query, seconds: float) -> Found:
    """Return the sums and timings of calls, step by step from the newest, as far as ``seconds`` allow.

    Raises sqlite3.Error."""
    db.create_function("product_of", 1, find_product, deterministic=True)
    found = Found()
    with _limited(db, seconds):
        for start, end in _list_parts(query):
            try:
                cells = _select_calls(db, query, start, end)
                times = _select_times(db, query, start, end)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                found.back_to = end
                break
            add_sums(found.cells, cells.items())
            for name, timing in times.items():
                found.timings[name] = found.timings.get(name, NOTHING) + timing
    return found


def _select_calls(
    db: sqlite3.Connection, query: Query, start: datetime, end: datetime
) -> dict[Cell, Sums]:
    where = " and ".join(["u.created_at >= :start and u.created_at < :end", *_list_indexed(query)])
    rest = [
        IS_UNNAMED
        if (name, value) == ("model", "")
        else is_value(name, ALL_COLUMNS[name], f":{name}")
        for name, value in query.filters.items()
        if name != TAG
    ]
    named = (*query.filters, query.by)
    needed = {ALL_COLUMNS[name] for name in named if name and name != TAG} | {"hour"}
    keys = {name: sql for name, sql in _OF_CALL.items() if name in needed}
    source = call_rows.make_source(where, keys)
    step = "hour" if query.hourly else "substr(hour, 1, 10)"
    group = "''" if query.by is None else ALL_COLUMNS[query.by]
    rows = db.execute(
        f"select {step}, {group}, {', '.join(list_sums({*call_rows.SUMS, 'billing'}))}"  # noqa: S608
        f" from {source} where {' and '.join(rest) or 'true'} group by 1, 2",
        _bind(query, start, end),
    )
    return {row[:2]: row[2:] for row in rows}


def _select_times(
    db: sqlite3.Connection, query: Query, start: datetime, end: datetime
) -> dict[str, Timing]:
    columns = {"model": f"coalesce(u.model, {NAME}, '')", "billing": call_rows.BILLING}
    columns |= {name: _OF_CALL[ALL_COLUMNS[name]] for name in ALL_COLUMNS.keys() - columns}
    conditions = [
        "u.model is null"
        if (name, value) == ("model", "")
        else is_value(name, columns[name], f":{name}")
        for name, value in query.filters.items()
        if name != TAG
    ]
    conditions += _list_indexed(query)
    group = "''" if query.by is None else columns[query.by]
    rows = db.execute(
        f"select {group}, {', '.join(timings.MEASURES)} from usage as u"  # noqa: S608 - our own text
        " where u.created_at >= :start and u.created_at < :end"
        f"{''.join(f' and {each}' for each in conditions)}",
        _bind(query, start, end),
    )
    values = defaultdict[str, list[tuple[float | None, ...]]](list)
    for row in rows:
        values[row[0]].append(row[1:])
    return {name: timings.measure_all(each) for name, each in values.items()}


def _list_indexed(query: Query) -> list[str]:
    """Return those SQL conditions of a query, over ``usage as u``, that an index supports."""
    indexed = [sql for name, sql in _INDEXED.items() if query.filters.get(name)]
    return [*indexed, _UNTAGGED] if query.filters.get(TAG) == "" else indexed


def _bind(query: Query, start: datetime, end: datetime) -> dict[str, str | int | None]:
    """Return the values of the placeholders in the SQL over calls."""
    tag_name, tag_value = split_tag(query.filters.get(TAG, ""))
    return {
        "tag_name": tag_name,
        "tag_value": tag_value,
        "start": format_hour(start),
        "end": format_hour(end),
        **query.filters,
        **unnamed_sessions.bind(query.filters.get("session", "")),
    }


def _list_parts(query: Query) -> Iterator[tuple[datetime, datetime]]:
    """Yield (start, end) of the parts of a period, newest first.

    The calls of one session are one part, since they have an index of their own."""
    if query.filters.get("session"):
        yield query.start, query.end
        return
    length = HOUR if query.hourly else DAY
    end = query.end
    while end > query.start:
        start = max(
            query.start,
            (end - HOUR).replace(hour=0) if length == DAY else end - length,
        )
        yield start, end
        end = start


@contextmanager
def _limited(db: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt statements of the connection after ``seconds``."""
    ends_at_s = time.monotonic() + seconds
    db.set_progress_handler(lambda: time.monotonic() > ends_at_s, _PROGRESS_STEPS)
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)
