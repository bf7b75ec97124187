"""Reading what tools cost on some days: the client's own, and MCP servers with all of theirs."""

import sqlite3
from dataclasses import dataclass
from datetime import date

from store.database import list_columns

_SELECT = (
    "select iif(server = '', tool, server), server <> '', sum(uses),"
    " sum(definition_cents) + sum(written_cents) + sum(carried_cents) as cents"
    " from tools_daily where day between ? and ? and (server <> '' or tool <> '')"
    " group by 1, 2 order by cents desc, 3 desc, 1 limit ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """The uses of a tool, or of all tools of a server, and the US cents they cost.

    These are definitions, and results with carrying them."""

    name: str
    uses: int
    cents: float


def list_most_expensive_tools(
    db: sqlite3.Connection, first: date, last: date, limit: int
) -> list[ToolCost]:
    """Return the most expensive tools and servers of these days, both included.

    There are none before the recorder has made the table. Raises sqlite3.Error."""
    if not list_columns(db, "tools_daily"):
        return []
    rows = db.execute(_SELECT, (first.isoformat(), last.isoformat(), limit))
    return [
        ToolCost(name=f"{name}, MCP" if is_server else name, uses=uses, cents=cents)
        for name, is_server, uses, cents in rows
    ]
