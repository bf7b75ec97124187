"""The figures in the tabs of a session, and the costs of its tools."""

import sqlite3
from dataclasses import dataclass

from runtime import clock
from store.database import bind_list, read_records
from store.traces.sessions import unnamed_sessions
from store.traces.sums.sum_columns import list_days


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """The figures in the tabs of a session: the number of tools used, and the possible savings.

    ``saved_cents`` is None until the session was analysed. ``user`` and ``project`` are those of the
    last call."""

    tools: int
    saved_cents: float | None
    user: str | None
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """The cost of a tool in a session, in US cents.

    ``definition_cents`` is the cost of its definition in each prompt, ``written_cents`` that of its
    results when they were new, ``carried_cents`` that of its results in later prompts. ``server`` is ""
    for a tool of the client's own."""

    server: str
    tool: str
    definition_cents: float
    written_cents: float
    carried_cents: float

    @property
    def cents(self) -> float:
        """Return the total in US cents."""
        return self.definition_cents + self.written_cents + self.carried_cents


def read_figures(db: sqlite3.Connection, session_id: str) -> SessionFigures:
    """Return the figures in the tabs of a session. Raises sqlite3.Error."""
    bound = unnamed_sessions.bind(session_id)
    (tools,) = db.execute(
        "select count(*) from (select distinct server, tool from tool_uses"  # noqa: S608 - our own text
        f" where usage_id in ({unnamed_sessions.CALLS}))",
        bound,
    ).fetchone()
    saved = db.execute("select cents from session_savings where session_id = ?", (session_id,))
    last = db.execute(
        f"select attributed_user, project from usage where id in ({unnamed_sessions.CALLS})"  # noqa: S608 - our own text
        " order by id desc limit 1",
        bound,
    )
    (saved_cents,) = saved.fetchone() or (None,)
    user, project = last.fetchone() or (None, None)
    return SessionFigures(tools=tools, saved_cents=saved_cents, user=user, project=project)


def list_tool_costs(
    db: sqlite3.Connection, session_id: str, started_at: str, ended_at: str
) -> list[ToolCost]:
    """Return the cost of each tool, the most expensive first; empty until the session was analysed.

    ``started_at`` and ``ended_at`` are the first and last instant of the session. Raises sqlite3.Error."""
    first, last = (clock.parse_instant(each).date() for each in (started_at, ended_at))
    days = list_days(first, last)
    costs = read_records(
        db,
        ToolCost,
        "select server, tool, total(definition_cents) as definition_cents,"
        " total(written_cents) as written_cents, total(carried_cents) as carried_cents"
        " from session_tools where session_id = ? and day in (select value from json_each(?))"
        " group by 1, 2",
        (session_id, bind_list(days)),
    )
    return sorted(costs, key=lambda each: (-each.cents, each.server, each.tool))
