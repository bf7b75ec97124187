"""The sums of what tools were used for and what they cost: of each session, and of days.

A look at a session (``recorder.savings``) replaces the rows of the session, and makes the sums of its days
anew. Rows of days that have left with their calls stay until the session goes with its last call.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from store.traces.sessions import unnamed_sessions

MAX_TARGETS = 200  # of a day, and of a session on a day; the others are one row
OTHER = "(other)"
_USES = (
    "select substr(u.created_at, 1, 10), u.slug, coalesce(u.credential_hmac, ''),"  # noqa: S608 - our own text
    " coalesce(t.server, ''), coalesce(t.tool, ''), coalesce(t.target, ''),"
    " count(*), sum(t.problem is not null), coalesce(sum(t.result_tokens), 0)"
    " from usage as u join tool_uses as t on t.usage_id = u.id"
    f" where u.id in ({unnamed_sessions.CALLS}) group by 1, 2, 3, 4, 5, 6"
)
_GROUPS = (
    "select u.id, substr(u.created_at, 1, 10), u.slug, coalesce(u.credential_hmac, '')"  # noqa: S608 - our own text
    f" from usage as u where u.id in ({unnamed_sessions.CALLS})"
)
_DAYS = "select distinct day from tools_daily"
_OF_SESSION = f"session_id = :session_id and day in ({_DAYS})"
_KEYS = "day, session_id, slug, credential, server, tool"
_RESULTS = "uses, failed, result_tokens"
_CENTS = "written_cents, carried_cents"
_INSERT_TOOL = (
    f"insert into session_tools ({_KEYS}, {_RESULTS}, definition_cents, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_TARGET = (
    f"insert into session_tool_targets ({_KEYS}, target, {_RESULTS}, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SUM_TOOLS = (
    f"insert into tools_daily (day, slug, credential, server, tool, {_RESULTS}, definition_cents, {_CENTS})"  # noqa: S608 - our own text
    " select day, slug, credential, server, tool, sum(uses), sum(failed), sum(result_tokens),"
    " sum(definition_cents), sum(written_cents), sum(carried_cents)"
    " from session_tools where day = ? group by 1, 2, 3, 4, 5"
)
_SUM_TARGETS = (
    "insert into tool_targets_daily"  # noqa: S608 - our own text
    f" (day, slug, credential, server, tool, target, sessions, {_RESULTS}, {_CENTS})"
    " with summed as (select slug, credential, server, tool, target, count(*) as sessions,"
    " sum(uses) as uses, sum(failed) as failed, sum(result_tokens) as result_tokens,"
    " sum(written_cents) as written_cents, sum(carried_cents) as carried_cents,"
    f" target <> '{OTHER}' and row_number() over (order by target = '{OTHER}',"
    " sum(written_cents) + sum(carried_cents) desc, sum(result_tokens) desc, target)"
    f" <= {MAX_TARGETS} as is_named"
    " from session_tool_targets where day = :day group by 1, 2, 3, 4, 5)"
    " select :day, slug, credential, iif(is_named, server, ''), iif(is_named, tool, ''),"
    f" iif(is_named, target, '{OTHER}'), sum(sessions), sum(uses), sum(failed), sum(result_tokens),"
    " sum(written_cents), sum(carried_cents) from summed group by 2, 3, 4, 5, 6"
)


class Payer(NamedTuple):
    """Whose calls are summed up together: those of one day, endpoint and credential ('' for none)."""

    day: str
    slug: str
    credential: str


class Target(NamedTuple):
    """A tool of a server with what it was used upon, '' for what is not there."""

    server: str
    tool: str
    target: str


@dataclass(slots=True)
class ToolSums:
    """Sums of uses. Costs are in US cents, of tokens with a known price."""

    uses: int = 0
    failed: int = 0
    result_tokens: int = 0
    definition_cents: float = 0.0
    written_cents: float = 0.0
    carried_cents: float = 0.0

    @property
    def brought_cents(self) -> float:
        """Return what the results cost."""
        return self.written_cents + self.carried_cents

    def add(self, other: "ToolSums") -> None:
        """Add other sums to these."""
        self.uses += other.uses
        self.failed += other.failed
        self.result_tokens += other.result_tokens
        self.definition_cents += other.definition_cents
        self.written_cents += other.written_cents
        self.carried_cents += other.carried_cents


type SumsOfTargets = Mapping[tuple[Payer, Target], ToolSums]


def read_payers(connection: sqlite3.Connection, session_id: str) -> dict[int, Payer]:
    """Return for whom the calls of a session are summed up, by their row ids."""
    rows = connection.execute(_GROUPS, unnamed_sessions.bind(session_id))
    return {usage_id: Payer(*payer) for usage_id, *payer in rows}


def read_uses(
    connection: sqlite3.Connection, session_id: str
) -> dict[tuple[Payer, Target], ToolSums]:
    """Return the uses of tools in a session, without their costs."""
    rows = connection.execute(_USES, unnamed_sessions.bind(session_id))
    return {(Payer(*row[:3]), Target(*row[3:6])): ToolSums(*row[6:]) for row in rows}


def write_session(
    connection: sqlite3.Connection,
    session_id: str,
    first_day: str,
    sums: SumsOfTargets,
    *,
    has_costs: bool,
) -> None:
    """Store the sums of a session from ``first_day`` on in the place of those that were there.

    Without costs, as when the texts are gone that they are computed from, those that have some stay. The
    caller holds the write lock."""
    if not has_costs and _has_costs(connection, session_id):
        return
    days = _list_days(connection, session_id) | {payer.day for payer, _ in sums}
    for table in ("session_tools", "session_tool_targets"):
        connection.execute(
            f"delete from {table} where {_OF_SESSION} and day >= :first_day",  # noqa: S608 - our own text
            {"session_id": session_id, "first_day": first_day},
        )
    connection.executemany(_INSERT_TOOL, _list_tool_rows(session_id, sums))
    connection.executemany(_INSERT_TARGET, _list_target_rows(session_id, sums))
    for day in days:
        _sum_tools(connection, day)
        _sum_targets(connection, day)


def remove_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove the sums of a session. The caller holds the write lock."""
    for day in _list_days(connection, session_id):
        for table in ("session_tools", "session_tool_targets"):
            connection.execute(
                f"delete from {table} where day = ? and session_id = ?",  # noqa: S608 - our own text
                (day, session_id),
            )
        _sum_tools(connection, day)
        _sum_targets(connection, day)


def forget_targets(connection: sqlite3.Connection, usage_id: int) -> None:
    """Remove what tools were used upon in the session and on the day of a call whose text is removed.

    The caller holds the write lock."""
    row = connection.execute(
        f"select substr(u.created_at, 1, 10), {unnamed_sessions.SESSION}"  # noqa: S608 - our own text
        " from usage as u where u.id = ?",
        (usage_id,),
    ).fetchone()
    removed = connection.execute(
        "delete from session_tool_targets where day = ? and session_id = ?", row or ("", "")
    )
    if removed.rowcount > 0:
        _sum_targets(connection, row[0])


def _list_days(connection: sqlite3.Connection, session_id: str) -> set[str]:
    rows = connection.execute(
        f"select distinct day from session_tools where {_OF_SESSION}",  # noqa: S608 - our own text
        {"session_id": session_id},
    )
    return {day for (day,) in rows}


def _has_costs(connection: sqlite3.Connection, session_id: str) -> bool:
    row = connection.execute(
        f"select 1 from session_tools where {_OF_SESSION}"  # noqa: S608 - our own text
        " and definition_cents + written_cents + carried_cents > 0 limit 1",
        {"session_id": session_id},
    ).fetchone()
    return row is not None


def _sum_tools(connection: sqlite3.Connection, day: str) -> None:
    connection.execute("delete from tools_daily where day = ?", (day,))
    connection.execute(_SUM_TOOLS, (day,))


def _sum_targets(connection: sqlite3.Connection, day: str) -> None:
    connection.execute("delete from tool_targets_daily where day = ?", (day,))
    connection.execute(_SUM_TARGETS, {"day": day})


def _list_tool_rows(session_id: str, sums: SumsOfTargets) -> list[tuple[object, ...]]:
    tools: dict[tuple[Payer, str, str], ToolSums] = {}
    for (payer, target), each in sums.items():
        tools.setdefault((payer, target.server, target.tool), ToolSums()).add(each)
    return [
        (
            *_place(payer, session_id),
            server,
            tool,
            each.uses,
            each.failed,
            each.result_tokens,
            each.definition_cents,
            each.written_cents,
            each.carried_cents,
        )
        for (payer, server, tool), each in tools.items()
    ]


def _list_target_rows(session_id: str, sums: SumsOfTargets) -> Iterable[tuple[object, ...]]:
    """Return the rows of targets: of each payer the most expensive ones, and one of all others."""
    by_payer: dict[Payer, list[tuple[Target, ToolSums]]] = {}
    for (payer, target), each in sums.items():
        if target.target:
            by_payer.setdefault(payer, []).append((target, each))
    for payer, found in by_payer.items():
        found.sort(key=lambda pair: (-pair[1].brought_cents, -pair[1].result_tokens, pair[0]))
        named, others = found[:MAX_TARGETS], ToolSums()
        for _, each in found[MAX_TARGETS:]:
            others.add(each)
        if others.uses:
            named = [*named, (Target("", "", OTHER), others)]
        for target, each in named:
            yield (
                *_place(payer, session_id),
                *target,
                each.uses,
                each.failed,
                each.result_tokens,
                each.written_cents,
                each.carried_cents,
            )


def _place(payer: Payer, session_id: str) -> tuple[str, ...]:
    return payer.day, session_id, payer.slug, payer.credential
