"""Reading of the calls of a session for the rules of savings: columns, line items and cache breaks."""

import sqlite3
from dataclasses import dataclass
from typing import NamedTuple

from metering.entry import CostItem, Outcome, UsageSource
from store.traces.calls import cache_breaks, costs
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.sessions import unnamed_sessions

MAX_CALLS = 5_000  # of one session: the newest ones


class CallColumns(NamedTuple):
    """The columns of a call that the rules of savings depend on."""

    id: int
    created_at: str
    agent_id: str | None
    model: str | None
    client: str | None
    outcome: Outcome
    status_code: int | None
    usage_source: UsageSource
    service_tier: str | None
    speed: str | None
    inference_geo: str | None
    request_class: str | None
    max_tokens: int | None
    message_count: int | None
    tool_count: int | None
    request_body_length: int | None
    thread: str | None
    credential_hmac: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_creation_input_tokens: int | None
    cache_read_input_tokens: int | None
    cache_write_1h_tokens: int | None
    upstream: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCall:
    """A call of a session with its predecessor, line items and cache break."""

    columns: CallColumns
    previous_id: int | None
    items: tuple[CostItem, ...]
    cache_break: CacheBreak | None


_COLUMNS = ", ".join(f"u.{name}" for name in CallColumns._fields)
_CALLS = (
    f"select {_COLUMNS}, p.previous_id from usage as u left join predecessors as p on p.usage_id = u.id"  # noqa: S608 - our own text
    f" where u.id in ({unnamed_sessions.CALLS}) and u.usage_source <> 'imported' order by u.created_at desc, u.id desc limit :limit"
)
# Calls of others that may have read a prefix of this size.
_READ_ELSEWHERE = (
    "select max(cache_read_input_tokens) from usage indexed by usage_model"
    " where model = ? and created_at > ? and created_at <= ? and cache_read_input_tokens <= ?"
    " and tool_count is ? and session_id is not ?"
)


def read_calls(connection: sqlite3.Connection, session_id: str) -> list[SessionCall]:
    """Return the newest ``MAX_CALLS`` calls of a session, oldest first."""
    values = unnamed_sessions.bind(session_id) | {"limit": MAX_CALLS}
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = cursor.execute(_CALLS, values).fetchall()[::-1]
    items = costs.read_all_items(connection, [row[0] for row in rows])
    breaks = {
        each.usage_id: each.found
        for each in cache_breaks.read_session_breaks(connection, session_id)
    }
    return [
        SessionCall(
            columns=CallColumns(*row[:-1]),
            previous_id=row[-1],
            items=tuple(items.get(row[0], ())),
            cache_break=breaks.get(row[0]),
        )
        for row in rows
    ]


def count_read_elsewhere(
    connection: sqlite3.Connection, call: CallColumns, session_id: str, until: str
) -> int:
    """Return the largest number of tokens that a call of another session may have read of this prefix.

    Counts calls of the same model and number of tools between ``call`` and the instant ``until``."""
    prefix = (call.cache_read_input_tokens or 0) + (call.cache_creation_input_tokens or 0)
    row = connection.execute(
        _READ_ELSEWHERE,
        (call.model, call.created_at, until, prefix, call.tool_count, session_id),
    ).fetchone()
    return int(row[0] or 0)
