"""The uses of tools in the responses of calls, and their results.

A row is written with its call. The result of a client's tool comes with the next call of the
conversation, which may be recorded much later, or never."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Self

from metering.tool_results import ToolResult, UseResult
from metering.tool_uses import ToolUse
from store.database import bind_list, list_columns, read_records
from store.traces.sessions import unnamed_sessions

_COUNT_FAILED = "select count(*) from tool_uses where usage_id = ? and problem is not null"
# A result whose tool is not named is only known by its order.
_SET_RESULT = (
    "update tool_uses set problem = ?, result_tokens = ? where usage_id = ? and place = ?"
    " and (tool is ? or (? is null and result_tokens is null))"
)
_ADD_FAILED = (
    "update sessions set failed_tools = failed_tools + :change"  # noqa: S608 - our own text
    f" where session_id = (select {unnamed_sessions.SESSION} from usage as u where u.id = :id)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUse:
    """One use of a tool in a response, as a row of the table. Unknown values are None.

    ``server`` is the MCP server, ``target`` a file, a pattern or the first line of a command.
    ``problem`` says why the use failed; it is None if it succeeded or the result is unknown."""

    tool: str | None
    server: str | None = None
    target: str | None = None
    problem: str | None = None
    result_tokens: int | None = None
    plus: int | None = None
    minus: int | None = None

    @classmethod
    def of(cls, use: ToolUse) -> Self:
        """Return the row of a use."""
        tokens, problem = use.result or (None, None)
        return cls(
            tool=use.tool,
            server=use.server,
            target=use.target,
            problem=problem,
            result_tokens=tokens,
            plus=use.plus,
            minus=use.minus,
        )

    def to_use(self) -> ToolUse:
        """Return the use of a row."""
        tokens = self.result_tokens
        return ToolUse(
            tool=self.tool,
            server=self.server,
            target=self.target,
            result=None if tokens is None else ToolResult(tokens, self.problem),
            plus=self.plus,
            minus=self.minus,
        )


_NAMES = tuple(field.name for field in fields(StoredUse))
_COLUMNS = ", ".join(_NAMES)
_MARKS = ", ".join("?" * len(_NAMES))
_list_values = attrgetter(*_NAMES)


def write_uses(
    connection: sqlite3.Connection, uses_by_id: Iterable[tuple[int, Sequence[ToolUse]]]
) -> None:
    """Insert the uses of calls, given by row id. The caller holds the write lock."""
    rows = [
        (usage_id, place, *_list_values(StoredUse.of(use)))
        for usage_id, uses in uses_by_id
        for place, use in enumerate(uses)
    ]
    if rows:
        connection.executemany(
            f"insert into tool_uses (usage_id, place, {_COLUMNS}) values (?, ?, {_MARKS})",  # noqa: S608 - our own text
            rows,
        )


def read_uses(connection: sqlite3.Connection, usage_id: int) -> list[StoredUse]:
    """Return the uses of a call, in order."""
    return read_records(
        connection,
        StoredUse,
        f"select {_COLUMNS} from tool_uses where usage_id = ? order by place",  # noqa: S608 - our own text
        (usage_id,),
    )


def read_uses_of(
    connection: sqlite3.Connection, usage_ids: Sequence[int]
) -> dict[int, list[StoredUse]]:
    """Return the uses of several calls by row id, each in order, without calls that have none.

    Empty if the recorder has not created the table yet."""
    if not list_columns(connection, "tool_uses"):
        return {}
    found: dict[int, list[StoredUse]] = {}
    for usage_id, *values in connection.execute(
        f"select usage_id, {_COLUMNS} from tool_uses"  # noqa: S608 - our own text
        " where usage_id in (select value from json_each(?)) order by usage_id, place",
        (bind_list(usage_ids),),
    ):
        found.setdefault(usage_id, []).append(StoredUse(**dict(zip(_NAMES, values, strict=True))))
    return found


def write_results(
    connection: sqlite3.Connection, usage_id: int, results: Sequence[UseResult], *, is_booked: bool
) -> None:
    """Store the results of those uses of tools that the call has.

    ``is_booked``: the call is in the sums of its session, to which failures are then added. The caller
    holds the write lock."""
    # Most calls that are stored had no failure, and most results are none: then there is nothing to count.
    before = _count_failed(connection, usage_id) if is_booked else 0
    connection.executemany(
        _SET_RESULT,
        [
            (result.problem, result.tokens, usage_id, place, tool, tool)
            for place, tool, result in results
        ],
    )
    if not is_booked or not (before or any(result.problem for _, _, result in results)):
        return
    if change := _count_failed(connection, usage_id) - before:
        connection.execute(_ADD_FAILED, {"id": usage_id, "change": change})


def _count_failed(connection: sqlite3.Connection, usage_id: int) -> int:
    count: int = connection.execute(_COUNT_FAILED, (usage_id,)).fetchone()[0]
    return count
