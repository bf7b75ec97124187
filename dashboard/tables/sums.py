"""Sums of the calls that match the filters of a list: of all, and by the values of a column.

They are read under a limit of time, and those of each page also under a limit of rows. The page says
which calls are summed; sums that took too long are left out, never shown in part as if they were
complete.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboard.tables.lean_datasette import (
    BadRequest,
    Datasette,
    QueryInterrupted,
    Request,
    escape_sqlite,
    path_with_replaced_args,
)
from dashboard.tables.paging import PagedFile
from metering.token_counts import NAMES, TokenCounts
from store.traces.sums.booking_sql import BILLED_TOKENS
from store.traces.sums.rollup import CUSTOMER, SUBSCRIPTION

ARGUMENT = "_sum_by"
TABLE = "usage"
MAX_ROWS = 10_000  # for the totals: some 30 ms
TOTALS_TIME_MS, GROUPS_TIME_MS = 100, 1000
MAX_GROUPS = 30
VALUE = f"billing = '{CUSTOMER}' or billing = '{SUBSCRIPTION}' and overage is not 1"
_SUMS = {
    "calls": "count(*)",
    "cost_cents": "total(cost_cents)",
    "estimated_cents": "total(estimated_cents)",
    "value_cents": f"total(case when {VALUE} then cost_cents end)",
    "unpriced": "sum(cost_cents is null and usage_source <> 'none')",
    **{name: f"cast(total({sql}) as integer)" for name, sql in BILLED_TOKENS.items()},
}
_COLUMNS = (
    "id", "cost_cents", "estimated_cents", "billing", "overage", "usage_source", "stop_reason", "status_code", *NAMES
)  # fmt: skip

type Extra = Callable[[], Awaitable[dict[str, Any]]]


type Totals = dict[str, Any]  # those of _SUMS, and ``tokens`` with all classes


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSums:
    """The values of a column with the totals of their calls, the most expensive first.

    ``values`` is None if reading took too long; ``truncated``: only the first ``MAX_GROUPS`` are there.
    Besides the totals, a value has its ``grouped_by``, whether it is ``selected`` as a filter, and
    ``href``, the address with that filter added or removed. By model, calls whose response named no model
    are grouped by the ``requested`` one. ``remove_url`` is the address of the list without these sums."""

    column: str
    values: Sequence[Totals] | None
    truncated: bool
    remove_url: str


def extend(extra: Extra, datasette: Datasette, request: Request, file: PagedFile) -> Extra:
    """Return the function that adds the sums to ``extra``, the data for pages that JSON does not have."""

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


async def _read_totals(file: PagedFile) -> Totals | None:
    """Return the totals of the newest ``MAX_ROWS`` matching calls, None if it takes too long.

    ``is_all`` is False if there may be older ones."""
    newest = (
        f"select {', '.join(_COLUMNS)} from {escape_sqlite(file.table)} where {file.conditions}"  # noqa: S608
        f" order by created_at desc limit {MAX_ROWS}"
    )
    try:
        found = await file.execute(
            f"select {_list_sums()} from ({newest}) as usage",  # noqa: S608 - our own text
            file.values,
            custom_time_limit=TOTALS_TIME_MS,
        )
    except QueryInterrupted:
        return None
    return _make_totals(found.rows[0]) | {"is_all": found.rows[0]["calls"] < MAX_ROWS}


async def _read_groups(
    datasette: Datasette, request: Request, file: PagedFile, column: str
) -> ColumnSums:
    name = escape_sqlite(column)
    requested = "iif(model is null, request_model, null)" if column == "model" else "null"
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
            f"select {name} as grouped_by, {requested} as requested, {_list_sums()}"  # noqa: S608
            f" from {escape_sqlite(file.table)}{where}"
            " group by 1, 2 order by cost_cents desc, calls desc, 1, 2"
            f" limit {MAX_GROUPS + 1}",
            file.values,
            custom_time_limit=GROUPS_TIME_MS,
        )
    except QueryInterrupted:
        return result
    values = [_make_value(datasette, request, column, row) for row in found.rows[:MAX_GROUPS]]
    return replace(result, values=values, truncated=len(found.rows) > MAX_GROUPS)


def _list_sums() -> str:
    return ", ".join(f"{sql} as {name}" for name, sql in _SUMS.items())


def _make_value(datasette: Datasette, request: Request, column: str, row: Any) -> Totals:
    conditions = _find_conditions(column, row["grouped_by"], row["requested"])
    selected = all(request.args.get(name) == wanted for name, wanted in conditions)
    changed = [(name, None if selected else wanted) for name, wanted in conditions]
    href = _replace(datasette, request, changed)
    return _make_totals(row) | {"href": href, "selected": selected}


def _find_conditions(column: str, value: Any, requested: str | None) -> list[tuple[str, str]]:
    """Return the query arguments that select the calls with a value."""
    if value is None:
        isnull = (f"{column}__isnull", "1")
        return [isnull] if requested is None else [isnull, ("request_model", requested)]
    return [(column if not column.startswith("_") else f"{column}__exact", str(value))]


def _replace(
    datasette: Datasette, request: Request, changed: Sequence[tuple[str, str | None]]
) -> str:
    """Return the address of the first page with changed arguments; None removes an argument."""
    path = path_with_replaced_args(request, [*changed, ("_next", None)])
    return str(datasette.urls.path(path))


def _make_totals(row: Any) -> Totals:
    found = dict(row)
    return found | {"tokens": TokenCounts.from_row(found)}
