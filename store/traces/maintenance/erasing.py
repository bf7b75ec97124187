"""Erasing of calls, so that none of their text is left in the files of the database.

The calls are those of a session, credential, client, endpoint, period, or several of these. Ids are
found by reading without a lock, and calls are removed in short transactions, which also count them
in ``erasures``: work that was killed begins again with the calls that are left. When none is left,
their pieces, indexed words and quotations are removed, data derived from the rest of their sessions
is computed again, free pages are given back, and the write-ahead log is emptied. SQLite overwrites
removed data (``PRAGMA secure_delete``).

Hourly and daily sums stay. Daily sums by session lose the name of a session that is gone, and sums
by tag lose the users, projects and tags of which no call is left."""

import sqlite3
from array import array
from contextlib import closing
from pathlib import Path

from store import database
from store.traces import steps
from store.traces.calls.credential_accounts import OF_PERSON
from store.traces.maintenance.criteria import Criteria
from store.traces.maintenance.removal import finish, give_back, remove_entry, settle_sessions, sweep
from store.traces.savings import savings
from store.traces.sessions import agent_sums, session_sums, unnamed_sessions
from store.traces.steps import Step, Steps, in_steps
from store.traces.sums import tag_sums

BUSY_TIMEOUT_S = 5.0  # people can wait
_PAGE = 5_000
_MATCHES = {
    "session": f"u.id in ({unnamed_sessions.CALLS})",
    "credential": f"u.credential_hmac in ({OF_PERSON})",
    # As given, or the product without its version.
    "client": "(u.client = :client or substr(u.client, 1, length(:client) + 1)"
    " in (:client || '/', :client || ' '))",
    "endpoint": "(u.proxy_endpoint_id = :endpoint or u.slug = :endpoint)",
    "since": "u.created_at >= :since",
    "until": "u.created_at < :until",
}


# The same of managed sessions and dreams, of whose client nothing is known.
_OBJECT_MATCHES = {
    "session": "object_id = :session",
    "credential": f"credential_hmac in ({OF_PERSON})",
    "client": "false",
    "endpoint": "(proxy_endpoint_id = :endpoint or slug = :endpoint)",
    "since": "read_at >= :since",
    "until": "read_at < :until",
}


def find_newest(connection: sqlite3.Connection) -> int:
    """Return the row id of the call that was recorded last, or 0."""
    return int(connection.execute("select coalesce(max(id), 0) from usage").fetchone()[0])


def find_calls(
    connection: sqlite3.Connection, criteria: Criteria, after: int = 0
) -> "Steps[array[int]]":
    """Find the row ids of matching calls above ``after``, oldest first."""
    found = array("q")
    values = criteria.values
    where = " and ".join(_MATCHES[name] for name in criteria.names)
    if criteria.session is not None:  # there is an index of them
        values |= unnamed_sessions.bind(criteria.session)
        sql = f"select u.id from usage as u where u.id > :after and {where} order by 1"  # noqa: S608 - our own text
        values |= {"after": after}
        found.extend(row[0] for row in connection.execute(sql, values).fetchall())
        yield
        return found
    first, last = connection.execute(
        "select coalesce(min(id), 1), coalesce(max(id), 0) from usage"
    ).fetchone()
    sql = (
        f"select u.id from usage as u where u.id > :after and u.id <= :up_to and {where} order by 1"  # noqa: S608 - our own text
    )
    for begin in range(max(first - 1, after), last, _PAGE):
        page = {"after": begin, "up_to": begin + _PAGE}
        found.extend(row[0] for row in connection.execute(sql, values | page).fetchall())
        yield
    return found


def count_calls(path: Path, criteria: Criteria) -> int:
    """Return how many calls match the criteria, 0 if there is no database. Raises sqlite3.Error."""
    if not path.exists():
        return 0
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        return len(steps.run(find_calls(connection, criteria), lambda _: None))


def erase(connection: sqlite3.Connection, erasure_id: str, criteria: Criteria) -> Steps[int]:
    """Remove the matching calls. Return how many were removed for this erasure, also by earlier runs.

    Raises sqlite3.Error; the remaining calls are then removed by the next run."""
    yield from sweep(connection)  # loose rows of work that was killed
    found = yield from find_calls(connection, criteria)
    place = 0

    def erase_some(step: Step) -> bool:
        nonlocal place
        untitled: set[str] = set()
        days: dict[str, tuple[str, str]] = {}
        tags: set[tuple[str, str]] = set()
        entries = 0
        while place < len(found) and step.has_time:
            _note_days(connection, found[place], days)
            tags.update(tag_sums.list_pairs(connection, found[place]))
            entries += remove_entry(connection, found[place], untitled)
            place += 1
        settle_sessions(connection, untitled)
        for session_id, (first_day, last_day) in days.items():
            _look_again(connection, session_id, first_day, last_day)
        tag_sums.forget_unused(connection, tags)
        connection.execute(
            "insert into erasures (id, entries) values (?, ?)"
            " on conflict (id) do update set entries = entries + excluded.entries",
            (erasure_id, entries),
        )
        return place == len(found)

    yield from in_steps(connection, erase_some)
    objects = yield from _erase_objects(connection, criteria)
    entries = read_count(connection, erasure_id)
    if entries or objects:
        yield from finish(connection)
        yield from give_back(connection)
        while not database.empty_log(connection):
            yield
    return entries


def _erase_objects(connection: sqlite3.Connection, criteria: Criteria) -> Steps[int]:
    """Remove the matching managed sessions and dreams. Return how many were removed."""
    where = " and ".join(_OBJECT_MATCHES[name] for name in criteria.names)
    removed = 0

    def erase_all(_step: Step) -> bool:
        nonlocal removed
        sql = f"delete from upstream_objects where {where}"  # noqa: S608 - our own text
        removed = connection.execute(sql, criteria.values).rowcount
        return True

    yield from in_steps(connection, erase_all)
    return removed


def read_count(connection: sqlite3.Connection, erasure_id: str) -> int:
    """Return how many calls were removed for an erasure."""
    row = connection.execute("select entries from erasures where id = ?", (erasure_id,)).fetchone()
    return 0 if row is None else int(row[0])


def forget_count(connection: sqlite3.Connection, erasure_id: str) -> None:
    """Delete the count of an erasure that has ended."""
    with database.immediate(connection):
        connection.execute("delete from erasures where id = ?", (erasure_id,))


def _note_days(
    connection: sqlite3.Connection, usage_id: int, days: dict[str, tuple[str, str]]
) -> None:
    """Add the session of a call with its first and last day to ``days``."""
    session_id = unnamed_sessions.find_session(connection, usage_id)
    if session_id is not None and session_id not in days:
        found = session_sums.find_days(connection, session_id)
        if found is not None:
            days[session_id] = found


def _look_again(
    connection: sqlite3.Connection, session_id: str, first_day: str, last_day: str
) -> None:
    """Remove data derived from a session of which calls were erased, and note it to be analysed again.

    If no call of the session is left, its name is removed from the daily sums."""
    savings.remove_session(connection, session_id)
    if session_sums.find_days(connection, session_id) is not None:
        savings.mark_session_due(connection, session_id)
    else:
        agent_sums.forget_session(connection, session_id, first_day, last_day)
