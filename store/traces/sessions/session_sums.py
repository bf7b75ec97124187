"""The sums of each session, updated in the transaction that changes its calls.

A list of sessions reads one row for each, however many calls they have. The sums of a session stay
while retention removes some of its calls, and are removed with the last call."""

import sqlite3
from collections.abc import Sequence

from metering import token_counts
from metering.token_counts import PROMPT_CLASSES
from store.database import bind_list
from store.traces import annotations
from store.traces.savings import savings
from store.traces.sessions import unnamed_sessions
from store.traces.sums import booking_sql
from wire.request import CONTINUATION

_PROMPT = " + ".join(f"coalesce({each.name}, 0)" for each in PROMPT_CLASSES)
# A call that is made for what a person asked.
_ASKED = (
    "{0}.agent_id is null and coalesce({0}.request_class, '') not in ('auxiliary', 'compaction')"
)
# Whether that is another thing than with the call before it, by the id of the prompt or else by the words,
# as prompts.py beside this finds it.
_IS_OTHER = (
    "select case when u.prompt_id is not null and b.prompt_id is not null then u.prompt_id <> b.prompt_id"
    " else coalesce(u.title_text <> b.title_text"
    f" and instr(u.title_text, '{CONTINUATION}') <> 1, 0) end"
)
_BEGINS_PROMPT = (
    f"iif({_ASKED.format('u')}, coalesce(iif(u.session_id is null,"
    f" ({_IS_OTHER} from predecessors as w join usage as b on b.id = w.previous_id"
    " where w.usage_id = u.id),"
    f" ({_IS_OTHER} from usage as b where b.session_id = u.session_id and {_ASKED.format('b')}"
    " and (b.created_at, b.id) < (u.created_at, u.id) order by b.created_at desc, b.id desc limit 1)"
    "), 1), 0)"
)
# Added to, with a sign.
_SUMS = {
    "calls": "1",
    "errors": booking_sql.OF_CALL["errors"],
    "unpriced": booking_sql.OF_CALL["unpriced"],
    **{name: f"coalesce({name}, 0)" for name in token_counts.NAMES},
    **booking_sql.MONEY_OF_CALL,
    "cache_breaks": "(select count(*) from cache_breaks where usage_id = u.id)",
    "prompts": _BEGINS_PROMPT,
    "failed_tools": "(select count(*) from tool_uses where usage_id = u.id and problem is not null)",
}
# The title is that of the earliest call with tools: the first message of an agent's session comes with
# them, while requests without ask for a title, or whether there is quota, and may come before it.
_TITLE_ORDER = (
    "case when title_text is null then '9' when tool_count > 0 then '1' else '2' end || created_at"
)
_ENDED_AT = (
    "strftime('%Y-%m-%dT%H:%M:%fZ', created_at, (coalesce(duration_ms, 0) / 1000.0) || ' seconds')"
)
_OTHERS = {
    "session_id": unnamed_sessions.SESSION,
    "title": "title_text",
    "title_order": _TITLE_ORDER,
    "started_at": "created_at",
    "ended_at": f"coalesce({_ENDED_AT}, created_at)",
    "slug": "slug",
    "client": "client",
    "credential_hmac": "credential_hmac",
    "peak_prompt_tokens": _PROMPT,
}
_BOOK = (
    f"insert into sessions ({', '.join((*_OTHERS, *_SUMS))})"  # noqa: S608 - our own text
    f" select {', '.join(_OTHERS.values())}, {', '.join(f':sign * ({sql})' for sql in _SUMS.values())}"
    " from usage as u where id in (select value from json_each(:ids))"
    f" and {unnamed_sessions.SESSION} is not null"
    " on conflict (session_id) do update set"
    " title = iif(excluded.title_order < title_order, excluded.title, title),"
    " title_order = min(title_order, excluded.title_order),"
    " slug = iif(excluded.ended_at < ended_at, slug, excluded.slug),"
    " client = iif(excluded.ended_at < ended_at, client, excluded.client),"
    " credential_hmac = iif(excluded.ended_at < ended_at, credential_hmac, excluded.credential_hmac),"
    " started_at = min(started_at, excluded.started_at),"
    " ended_at = max(ended_at, excluded.ended_at),"
    " peak_prompt_tokens = max(peak_prompt_tokens, excluded.peak_prompt_tokens), "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
    + " returning session_id"
)
_TITLED = (
    f"select s.session_id from usage as u join sessions as s on s.session_id = {unnamed_sessions.SESSION}"  # noqa: S608 - our own text
    f" where u.id = ? and s.title is not null and s.title_order = {_TITLE_ORDER}"
)
_RETITLE = (
    "update sessions set (title, title_order) ="  # noqa: S608 - our own text
    f" (select title_text, {_TITLE_ORDER} from usage where id in ({unnamed_sessions.CALLS})"
    " order by 2 limit 1) where session_id = :session_id"
    f" and exists (select 1 from usage where id in ({unnamed_sessions.CALLS}))"
)
_REMOVE = (
    "delete from sessions"  # noqa: S608 - our own text
    f" where session_id = (select {unnamed_sessions.SESSION} from usage as u where u.id = :id)"
    " and not exists (select 1 from usage where session_id = sessions.session_id and id <> :id)"
    " and not exists (select 1 from unnamed_calls where usage_id <> :id"
    " and first_id = (select first_id from unnamed_calls where usage_id = :id))"
    " returning session_id"
)


def book(connection: sqlite3.Connection, ids: Sequence[int], *, sign: int = 1) -> None:
    """Add stored calls to the sums of their sessions or, with ``sign`` -1, subtract them.

    Title and times are never taken back: a call that is subtracted is added again with another cost.
    With ``sign`` 0 only title and times are updated. The caller holds the write lock."""
    rows = connection.execute(_BOOK, {"ids": bind_list(ids), "sign": sign}).fetchall()
    savings.mark_due(connection, {session_id for (session_id,) in rows})


def join(connection: sqlite3.Connection, usage_id: int, previous_id: int) -> list[int]:
    """Assign a call without a session to the session of the call that it continues.

    Returns the ids of the calls that the session gains and that its sums do not include yet. The caller
    holds the write lock."""
    joined, left = unnamed_sessions.join(connection, usage_id, previous_id)
    if left is not None:
        connection.execute("delete from sessions where session_id = ?", (left,))
        savings.remove_session(connection, left)
        into = unnamed_sessions.find_session(connection, usage_id)
        if into is not None:
            annotations.move_to_session(connection, left, into)
    return joined


def remove_before_last(connection: sqlite3.Connection, usage_id: int) -> None:
    """Remove sums and findings of a session whose last call is about to be removed.

    The caller holds the write lock."""
    for (session_id,) in connection.execute(_REMOVE, {"id": usage_id}).fetchall():
        savings.remove_session(connection, session_id)
        annotations.remove_of_session(connection, session_id)


def find_titled(connection: sqlite3.Connection, usage_id: int) -> set[str]:
    """Return the id of the session with the title of this call, as a set; empty if there is none."""
    return {row[0] for row in connection.execute(_TITLED, (usage_id,))}


def refresh_title(connection: sqlite3.Connection, session_id: str) -> None:
    """Set the title of a session to that of its earliest remaining call. The caller holds the write lock."""
    connection.execute(_RETITLE, unnamed_sessions.bind(session_id))


def find_days(connection: sqlite3.Connection, session_id: str) -> tuple[str, str] | None:
    """Return the first and the last day of a session, or None if it has no sums."""
    row = connection.execute(
        "select substr(started_at, 1, 10), substr(ended_at, 1, 10) from sessions where session_id = ?",
        (session_id,),
    ).fetchone()
    return None if row is None else (str(row[0]), str(row[1]))
