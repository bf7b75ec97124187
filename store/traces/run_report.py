"""Totals of the calls of one run, read from its entries.

They are booked as hourly sums are: tokens and cents belong to the model that ran each pass, and the call
itself to the model of its response.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from metering import token_counts
from store.database import open_readonly, snapshot
from store.traces import booking_sql
from store.traces.usage_report import (
    READ_TIMEOUT_S,
    Group,
    Names,
    Sums,
    Totals,
    add_up,
    list_columns,
    make_groups,
    read_sums,
)

# In braces: columns that a database lacks while the recorder has not migrated it.
_ADDED = {
    "billing": ("usage", "u.billing"),
    "overage": ("usage", "u.overage"),
    "estimated": ("usage_cost", "c.estimated"),
    "unbilled_reason": ("usage_cost", "c.unbilled_reason"),
}
_OF_LINE = {
    "cost_cents": "coalesce(c.cents, 0)",
    "estimated_cents": "case when {estimated} then coalesce(c.cents, 0) else 0 end",
} | {
    name: f"case when {booking_sql.OF_LINE[name]} then c.quantity else 0 end"
    for name in (*token_counts.NAMES, "unbilled_tokens", "unpriced_tokens")
}
_COLUMNS = (*booking_sql.OF_CALL, *_OF_LINE)
_ZERO = dict.fromkeys(_COLUMNS, "0")


def _select(model: str, sums: dict[str, str], source: str) -> str:
    columns = ", ".join(f"{sql} as {name}" for name, sql in (_ZERO | sums).items())
    return (
        f"select coalesce({model}, '') as model, {booking_sql.BILLING} as billing, {columns}"  # noqa: S608 - our own text
        f" from usage as u {source} where u.run_id = ?"
    )


# Rows like those of ``usage_hourly``: one for each call, and one for each of its line items.
_ROWS = (
    f"({_select('u.model', booking_sql.OF_CALL, '')} union all"
    f" {_select('c.model', _OF_LINE, 'join usage_cost as c on c.usage_id = u.id')})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Totals of the calls of one run, and by model. ``pending`` calls are not included: they are in
    flight, or wait in the spool."""

    run_id: str
    pending: int
    totals: Totals
    models: Sequence[Group]


def read_run(path: Path, run_id: str, pending: int = 0) -> RunReport:
    """Read the totals of one run from its entries. Those that retention has removed are missing.

    Raises sqlite3.Error when the database cannot be read."""
    sums: dict[Names, Sums] = {}
    if path.exists():
        with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db, snapshot(db):
            columns = {table: list_columns(db, table) for table in ("usage", "usage_cost")}
            if "run_id" in columns["usage"]:
                rows = _ROWS.format_map(
                    {
                        name: column if name in columns[table] else "null"
                        for name, (table, column) in _ADDED.items()
                    }
                )
                sums = read_sums(db, "model", rows, (run_id, run_id), {"billing", *_COLUMNS})
    return RunReport(
        run_id=run_id,
        pending=pending,
        totals=add_up(sums.values(), None),
        models=make_groups("model", sums, {}),
    )
