"""Totals of the calls of one run, read from its entries and computed like the hourly sums."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.database import list_columns, open_readonly, snapshot
from store.traces.sums import call_rows
from store.traces.sums.sum_columns import Names, Sums
from store.traces.sums.usage_report import (
    READ_TIMEOUT_S,
    Group,
    Totals,
    add_up,
    make_groups,
    read_sums,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Totals of the calls of one run, in all and by model.

    They do not include the ``pending`` calls, which are in flight or wait in the spool."""

    run_id: str
    pending: int
    totals: Totals
    models: Sequence[Group]


def read_run(path: Path, run_id: str, pending: int = 0) -> RunReport:
    """Return the totals of one run from its entries, without those that retention has removed.

    Raises sqlite3.Error if the database cannot be read."""
    sums: dict[Names, Sums] = {}
    if path.exists():
        with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db, snapshot(db):
            if list_columns(db, "usage"):
                rows = call_rows.make_source("u.run_id = ?")
                columns = {"billing", *call_rows.SUMS}
                sums = read_sums(db, "model", rows, (run_id, run_id), columns)
    return RunReport(
        run_id=run_id,
        pending=pending,
        totals=add_up(sums.values(), None),
        models=make_groups("model", sums, {}),
    )
