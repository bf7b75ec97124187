"""Sums of the calls that fit the conditions of a list: of all of them, and by the values of a column.

They are read under a limit of time and, for the totals of each page, of rows: what is added up is said, and
what took too long is left out, never shown in part as if it were all.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboard.tables.paging import PagedFile
from dashboard.tables.patched_datasette import (
    BadRequest,
    Datasette,
    QueryInterrupted,
    Request,
    escape_sqlite,
    path_with_replaced_args,
)
from metering.token_counts import NAMES, TokenCounts

ARGUMENT = "_sum_by"
TABLE = "usage"
MAX_ROWS = 10_000  # for the totals: some 30 ms
TOTALS_TIME_MS, GROUPS_TIME_MS = 100, 1000
MAX_GROUPS = 30
_SUMS = {
    "calls": "count(*)",
    "cost_cents": "total(cost_cents)",
    "estimated_cents": "total(estimated_cents)",
    "value_cents": "total(case when billing = 'subscription' and overage is not 1 then cost_cents end)",
    "unpriced": "sum(cost_cents is null and usage_source <> 'none')",
    **{name: f"coalesce(sum({name}), 0)" for name in NAMES},
}
_COLUMNS = (
    "cost_cents", "estimated_cents", "billing", "overage", "usage_source", *NAMES
)  # fmt: skip

type Extra = Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """Totals of calls. ``is_all`` is False where there may be more, older ones."""

    calls: int
    cost_cents: float
    estimated_cents: float
    value_cents: float
    unpriced: int
    tokens: TokenCounts
    is_all: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedValue:
    """A value of the column with the totals of its calls. ``href`` adds it to the conditions, or takes it
    away where it is ``selected``."""

    value: Any
    totals: CallTotals
    href: str
    selected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSums:
    """The values of a column, the most expensive first. ``values`` is None where it took too long."""

    column: str
    values: Sequence[SummedValue] | None
    truncated: bool
    remove_url: str


def extend(extra: Extra, datasette: Datasette, request: Request, file: PagedFile) -> Extra:
    """Return the function for what only a page shows, with the sums: programs do not wait for them."""

    async def find() -> dict[str, Any]:
        columns = request.args.getlist(ARGUMENT)
        known = set(await file.table_columns(file.table))
        for column in columns:
            if column not in known:
                raise BadRequest(f"{ARGUMENT} has to be the name of a column; it is {column!r}.")
        has_sums = known.issuperset(_COLUMNS)
        return await extra() | {
            "call_totals": await _read_totals(file) if file.conditions and has_sums else None,
            "column_sums": [
                await _read_groups(datasette, request, file, column) for column in columns
            ]
            if has_sums
            else [],
        }

    return find


async def _read_totals(file: PagedFile) -> CallTotals | None:
    """Return the totals of the newest calls that fit, None where it takes too long."""
    newest = (
        f"select {', '.join(_COLUMNS)} from {escape_sqlite(file.table)} where {file.conditions}"  # noqa: S608
        f" order by created_at desc limit {MAX_ROWS}"
    )
    try:
        found = await file.execute(
            f"select {_list_sums()} from ({newest})",  # noqa: S608 - our own text
            file.values,
            custom_time_limit=TOTALS_TIME_MS,
        )
    except QueryInterrupted:
        return None
    return _make_totals(found.rows[0], is_all=found.rows[0]["calls"] < MAX_ROWS)


async def _read_groups(
    datasette: Datasette, request: Request, file: PagedFile, column: str
) -> ColumnSums:
    name = escape_sqlite(column)
    where = f" where {file.conditions}" if file.conditions else ""
    others = [each for each in request.args.getlist(ARGUMENT) if each != column]
    result = ColumnSums(
        column=column,
        values=None,
        truncated=False,
        remove_url=_replace(datasette, request, [(ARGUMENT, each) for each in others or [None]]),
    )
    try:
        found = await file.execute(
            f"select {name} as grouped_by, {_list_sums()} from {escape_sqlite(file.table)}{where}"  # noqa: S608
            " group by 1 order by cost_cents desc, calls desc, 1"
            f" limit {MAX_GROUPS + 1}",
            file.values,
            custom_time_limit=GROUPS_TIME_MS,
        )
    except QueryInterrupted:
        return result
    values = [
        _make_value(datasette, request, column, row["grouped_by"], _make_totals(row))
        for row in found.rows[:MAX_GROUPS]
    ]
    return replace(result, values=values, truncated=len(found.rows) > MAX_GROUPS)


def _list_sums() -> str:
    return ", ".join(f"{sql} as {name}" for name, sql in _SUMS.items())


def _make_value(
    datasette: Datasette, request: Request, column: str, value: Any, totals: CallTotals
) -> SummedValue:
    if value is None:
        name, wanted = f"{column}__isnull", "1"
    else:
        name, wanted = column if not column.startswith("_") else f"{column}__exact", str(value)
    selected = request.args.get(name) == wanted
    href = _replace(datasette, request, [(name, None if selected else wanted)])
    return SummedValue(value=value, totals=totals, href=href, selected=selected)


def _replace(
    datasette: Datasette, request: Request, changed: Sequence[tuple[str, str | None]]
) -> str:
    """Return the address with other arguments, of the first page."""
    path = path_with_replaced_args(request, [*changed, ("_next", None)])
    return str(datasette.urls.path(path))


def _make_totals(row: Any, *, is_all: bool = True) -> CallTotals:
    return CallTotals(
        calls=row["calls"],
        cost_cents=row["cost_cents"],
        estimated_cents=row["estimated_cents"],
        value_cents=row["value_cents"],
        unpriced=row["unpriced"] or 0,
        tokens=TokenCounts.from_row({name: row[name] for name in NAMES}),
        is_all=is_all,
    )
