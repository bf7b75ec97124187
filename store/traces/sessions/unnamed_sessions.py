"""Sessions of programs that send no session id: calls that continue one another.

The id of such a session has the row id of its first call: ``unnamed-4711``. Row ids are never used
again, so the id stays valid when retention has removed that call. A call that no other call
continues is in no session. ``usage.session_id`` stays as the client sent it. A client that sends
such an id itself shares the session of that number."""

import re
import sqlite3
from typing import NamedTuple

PREFIX = "unnamed-"
_ID = re.compile(rf"{PREFIX}([1-9][0-9]{{0,17}})")

# The session of a call, over ``usage as u``; null for a call that is in none.
SESSION = (
    "coalesce(u.session_id,"  # noqa: S608 - our own text
    f" (select '{PREFIX}' || n.first_id from unnamed_calls as n where n.usage_id = u.id))"
)
# The ids of the calls of a session, with the values of ``bind``.
CALLS = (
    "select id from usage where session_id = :session_id"
    " union select usage_id from unnamed_calls where first_id = :first_id"
)


def parse_first_id(session_id: str) -> int | None:
    """Return the row id of the first call of an unnamed session, None for any other session id."""
    found = _ID.fullmatch(session_id)
    return int(found[1]) if found else None


def bind(session_id: str) -> dict[str, str | int | None]:
    """Return the values of the placeholders in ``CALLS``."""
    return {"session_id": session_id, "first_id": parse_first_id(session_id)}


def find_session(connection: sqlite3.Connection, usage_id: int) -> str | None:
    """Return the id of the session of a call, named or not, or None."""
    row = connection.execute(
        f"select {SESSION} from usage as u where u.id = ?",  # noqa: S608 - our own text
        (usage_id,),
    ).fetchone()
    return None if row is None else row[0]


class Joined(NamedTuple):
    """The ids of calls that were assigned to a session, and the session that they have left, or None."""

    ids: list[int]
    left: str | None = None


def join(connection: sqlite3.Connection, usage_id: int, previous_id: int) -> Joined:
    """Assign a call without a session to the session of the call that it continues.

    If both are in unnamed sessions already, they stay there, unless the call names the other one in a
    message thread: then all calls of its session are moved. The caller holds the write lock."""
    rows = connection.execute(
        "select u.id, n.first_id, u.thread = 'continue' from usage as u"
        " left join unnamed_calls as n on n.usage_id = u.id"
        " where u.id in (?, ?) and u.session_id is null",
        (usage_id, previous_id),
    ).fetchall()
    if len(rows) < 2:
        return Joined([])
    firsts = {call_id: first_id for call_id, first_id, _ in rows}
    first_id = firsts[previous_id] or firsts[usage_id] or previous_id
    joining = [each for each, known in firsts.items() if known is None]
    connection.executemany(
        "insert into unnamed_calls (usage_id, first_id) values (?, ?)",
        [(each, first_id) for each in joining],
    )
    left = firsts[usage_id]
    is_named = any(each == usage_id and is_continue for each, _, is_continue in rows)
    if left is None or left == first_id or not is_named:
        return Joined(joining)
    moved = connection.execute(
        "update unnamed_calls set first_id = ? where first_id = ? returning usage_id",
        (first_id, left),
    ).fetchall()
    return Joined([each for (each,) in moved], f"{PREFIX}{left}")
