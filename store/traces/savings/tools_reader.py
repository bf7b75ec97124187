"""Reading of the sums of tools of a period, from the sums of days alone."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from store.database import bind_list, list_columns
from store.traces.savings.tool_sums import ALL, OTHER, ToolSums
from store.traces.sums import histograms
from store.traces.sums.sum_columns import list_days

_RESULTS = "sum(uses), sum(failed), sum(result_tokens)"
_CENTS = "total(written_cents), total(carried_cents)"
_WHERE = (
    "day between :first and :last and (:slug is null or slug = :slug)"
    " and (:credential is null or {credential} = :credential)"
)
_TOOLS = (
    f"select server, tool, {_RESULTS}, total(definition_cents), {_CENTS}"  # noqa: S608 - our own text
    f" from tools_daily where {_WHERE.format(credential='credential')} group by 1, 2"
)
_SIZES = (
    "select server, tool, result_sizes from tool_sizes_daily where day in (select value from json_each(?))"
    " and slug = ? and credential = ?"
)
_TARGETS = (
    f"select server, tool, target, sum(sessions), {_RESULTS}, 0.0, {_CENTS}"  # noqa: S608 - our own text
    f" from tool_targets_daily where {_WHERE.format(credential='credential')}"
    f" and target <> '{OTHER}' group by 1, 2, 3"
    " order by total(written_cents) + total(carried_cents) desc, sum(result_tokens) desc, target"
    " limit :limit"
)
_SUM = (
    "select total(definition_cents) + total(written_cents) + total(carried_cents)"  # noqa: S608 - our own text
    f" from tools_daily where {_WHERE.format(credential='credential')}"
)
_PAID = (
    "select total(cost_cents) from usage_daily"  # noqa: S608 - our own text
    f" where {_WHERE.format(credential='credential_hmac')}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFilter:
    """A choice of sums: days (both included), endpoint and credential; None for all."""

    first: date
    last: date
    slug: str | None = None
    credential: str | None = None

    def bind(self) -> dict[str, str | int | None]:
        """Return the values for the placeholders of SQL."""
        return {
            "first": self.first.isoformat(),
            "last": self.last.isoformat(),
            "slug": self.slug,
            "credential": self.credential,
        }


class SummedTool(NamedTuple):
    """A tool with its sums. ``server`` is "" if the tool is of no MCP server."""

    server: str
    tool: str
    sums: ToolSums


class SummedTarget(NamedTuple):
    """A target of a tool with its sums. ``sessions`` counts a session once for each day."""

    server: str
    tool: str
    target: str
    sessions: int
    sums: ToolSums


class ToolsReader:
    """A reader of the sums of tools by a read-only connection. Every method may raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read by ``connection``, which the caller closes."""
        self._cursor = connection.cursor()
        self._cursor.row_factory = None
        self.is_ready = bool(list_columns(connection, "tools_daily"))
        self._has_sizes = bool(list_columns(connection, "tool_sizes_daily"))

    def list_tools(self, given: ToolFilter) -> list[SummedTool]:
        """Return the tools of a period with their sums."""
        sizes = self._read_sizes(given)
        rows = self._cursor.execute(_TOOLS, given.bind()).fetchall()
        return [
            SummedTool(row[0], row[1], ToolSums.of(row[2:], sizes.get(row[:2], 0))) for row in rows
        ]

    def _read_sizes(self, given: ToolFilter) -> dict[tuple[str, str], int]:
        """Return the histograms of the sizes of results, by server and tool."""
        if not self._has_sizes:
            return {}  # the recorder has not made the table yet
        found = defaultdict[tuple[str, str], list[int]](lambda: [0])
        days = list_days(given.first, given.last)
        chosen = given.slug or ALL, given.credential or ALL
        for server, tool, sizes in self._cursor.execute(_SIZES, (bind_list(days), *chosen)):
            histograms.add_packed(found[server, tool], (sizes,))
        return {name: sizes for name, (sizes,) in found.items()}

    def list_targets(self, given: ToolFilter, limit: int) -> list[SummedTarget]:
        """Return up to ``limit`` targets, those with the most expensive results first."""
        rows = self._cursor.execute(_TARGETS, given.bind() | {"limit": limit}).fetchall()
        return [SummedTarget(row[0], row[1], row[2], row[3], ToolSums(*row[4:])) for row in rows]

    def list_values(self, given: ToolFilter, column: str) -> Sequence[tuple[str, int]]:
        """Return the endpoints (``slug``) or credentials of a period, each with its number of uses."""
        return self._cursor.execute(
            f"select {column}, sum(uses) from tools_daily"  # noqa: S608 - one of two names
            f" where day between :first and :last and {column} <> '' group by 1 order by 2 desc, 1"
            " limit 50",
            given.bind(),
        ).fetchall()

    def sum_cents(self, given: ToolFilter) -> float:
        """Return the cost of all tools in US cents."""
        (cents,) = self._cursor.execute(_SUM, given.bind()).fetchone()
        return float(cents)

    def sum_paid(self, given: ToolFilter) -> float:
        """Return the cost of all calls in US cents."""
        (cents,) = self._cursor.execute(_PAID, given.bind()).fetchone()
        return float(cents)


_SELECT_COSTS = (
    "select iif(server = '', tool, server), server <> '', sum(uses),"
    " sum(definition_cents) + sum(written_cents) + sum(carried_cents) as cents"
    " from tools_daily where day between ? and ? and (server <> '' or tool <> '')"
    " group by 1, 2 order by cents desc, 3 desc, 1 limit ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """The uses of a tool, or of all tools of a server, and their cost in US cents.

    The cost includes definitions, results, and results repeated in later prompts."""

    name: str
    uses: int
    cents: float


def list_most_expensive_tools(
    db: sqlite3.Connection, first: date, last: date, limit: int
) -> list[ToolCost]:
    """Return the most expensive tools and servers from day ``first`` to ``last``, both included.

    Empty if the recorder has not created the table yet. Raises sqlite3.Error."""
    if not list_columns(db, "tools_daily"):
        return []
    rows = db.execute(_SELECT_COSTS, (first.isoformat(), last.isoformat(), limit))
    return [
        ToolCost(name=f"{name}, MCP" if is_server else name, uses=uses, cents=cents)
        for name, is_server, uses, cents in rows
    ]
