"""Totals of an organisation's usage, read from the hourly sums beside its traces.

The sums stay when retention removes their entries, and there are few of them; so a report takes the same
time whether a day had a hundred calls or a million.
"""

import sqlite3
from collections.abc import Container, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal

from metering import token_counts
from metering.token_counts import ZERO, TokenCounts
from store.database import open_readonly, snapshot
from store.traces.rollup import MAY_BE_BILLED, NO_ERROR, SUBSCRIPTION

type Grouping = Literal["day", "model", "endpoint"]

READ_TIMEOUT_S = 1.0
# Calls, errors, unpriced calls, calls that may have been billed, cost, its estimated part and its value:
# what _totals takes, before the token counts. In braces: what a database lacks that was not migrated yet.
_HOURLY_SUMS = (
    "sum(entries), sum(errors), sum(unpriced), {maybe_billed}, sum(cost_cents), {estimated_cents},"
    " {value_cents}"
)
_RUN_SUMS = (
    f"count(*), sum(outcome not in {NO_ERROR}), sum(cost_cents is null and usage_source <> 'none'),"
    f" sum({MAY_BE_BILLED}), total(cost_cents), {{estimated_cents}}, {{value_cents}}"
)
_KEYS: dict[Grouping, str] = {
    "day": "substr(hour, 1, 10), null, null, null",
    "model": "null, model, null, null",
    "endpoint": "null, null, proxy_endpoint_id, slug",
}
_GROUPED: dict[Grouping, str] = {"day": "1", "model": "2", "endpoint": "3, 4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals of calls. ``unpriced`` calls have usage but no known price; the cost is that of the
    others. ``estimated_cents`` is the part of it that is estimated, and ``value_cents`` that of calls
    which a subscription covers: they have a value and no bill. Calls that are ``maybe_billed`` have
    no usage and no cost, though upstream had the request. ``rejected`` requests were refused by our own
    limit and are not calls."""

    calls: int = 0
    errors: int = 0
    tokens: TokenCounts = ZERO
    cost_cents: float = 0.0
    estimated_cents: float = 0.0
    value_cents: float = 0.0
    unpriced: int = 0
    maybe_billed: int = 0
    rejected: int | None = 0

    @property
    def spend_cents(self) -> float:
        """Return the cost without that of calls which a subscription covers."""
        return self.cost_cents - self.value_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Totals of the calls that share a day, a model or an endpoint; the other two are None. The
    name of an unknown model is None too. By model there is no count of rejected requests, which
    name none."""

    day: str | None = None
    model: str | None = None
    proxy_endpoint_id: str | None = None
    slug: str | None = None
    totals: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Totals by day, newest first, or by model or endpoint, the most expensive first."""

    by: Grouping
    from_day: date | None
    to_day: date | None
    totals: Totals
    groups: Sequence[Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Totals of the calls of one run, and by model. ``pending`` calls are not included: they are in
    flight, or wait in the spool."""

    run_id: str
    pending: int
    totals: Totals
    models: Sequence[Group]


type _Key = tuple[str | None, str | None, str | None, str | None]


def read_usage(
    path: Path, by: Grouping, from_day: date | None = None, to_day: date | None = None
) -> UsageReport:
    """Return the totals of a period. Days are UTC and both are included. The report is empty while
    nothing has been recorded.

    Raises sqlite3.Error when the database cannot be read."""
    if not path.exists():
        return _report(by, from_day, to_day, {}, {})
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        columns = _list_columns(db, "usage_hourly")
        if not columns:  # the recorder creates the file a moment before the tables
            return _report(by, from_day, to_day, {}, {})
        where, parameters = _between(from_day, to_day)
        with snapshot(db):
            sums = {
                row[:4]: row[4:]
                for row in db.execute(
                    f"select {_KEYS[by]}, {_select_sums(_HOURLY_SUMS, columns)}"  # noqa: S608
                    f" from usage_hourly {where} group by {_GROUPED[by]}",
                    parameters,
                )
            }
            rejected = {
                row[:4]: row[4]
                for row in db.execute(
                    f"select {_KEYS['day' if by == 'day' else 'endpoint']}, sum(count)"  # noqa: S608
                    f" from rejections_hourly {where}"
                    f" group by {_GROUPED['day' if by == 'day' else 'endpoint']}",
                    parameters,
                )
            }
    return _report(by, from_day, to_day, sums, rejected)


def read_run(path: Path, run_id: str, pending: int = 0) -> RunReport:
    """Read the totals of one run from its entries. Those that retention has removed are missing.

    Raises sqlite3.Error when the database cannot be read."""
    sums: dict[_Key, tuple[float, ...]] = {}
    if path.exists():
        with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
            columns = _list_columns(db, "usage")
            if "run_id" in columns:
                rows = db.execute(
                    f"select coalesce(model, ''), {_select_sums(_RUN_SUMS, columns)}"  # noqa: S608
                    " from usage where run_id = ? group by 1",
                    (run_id,),
                )
                sums = {(None, model, None, None): values for model, *values in rows}
    report = _report("model", None, None, sums, {})
    totals = replace(report.totals, rejected=None)
    return RunReport(run_id=run_id, pending=pending, totals=totals, models=report.groups)


def _list_columns(db: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a table. There are none before the recorder has made it, and the newest
    are missing before the recorder has migrated it."""
    return {name for (name,) in db.execute("select name from pragma_table_info(?)", (table,))}


def _select_sums(sums: str, columns: Container[str]) -> str:
    """Return SQL for these sums and that of each class of tokens: 0 for what has no column yet."""
    added = ("maybe_billed", "estimated_cents")
    return ", ".join(
        (
            sums.format_map(
                {name: _sum(name, columns) for name in added} | {"value_cents": _sum_value(columns)}
            ),
            *(_sum(name, columns) for name in token_counts.NAMES),
        )
    )


def _sum(name: str, columns: Container[str]) -> str:
    return f"coalesce(sum({name}), 0)" if name in columns else "0"


def _sum_value(columns: Container[str]) -> str:
    """Return SQL for the cost of calls that a subscription covers. Hourly sums have those that paid
    extra usage covers under another name."""
    if "billing" not in columns:
        return "0"
    extra = " and coalesce(overage, 0) = 0" if "overage" in columns else ""
    return f"total(case when billing = '{SUBSCRIPTION}'{extra} then cost_cents end)"


def _between(from_day: date | None, to_day: date | None) -> tuple[str, list[str]]:
    """Return the condition for a period. Hours are ``YYYY-MM-DDTHH``: they sort as text, and before
    the end of the day written with a ``~``."""
    conditions, parameters = [], []
    if from_day is not None:
        conditions.append("hour >= ?")
        parameters.append(from_day.isoformat())
    if to_day is not None:
        conditions.append("hour <= ?")
        parameters.append(f"{to_day.isoformat()}~")
    return (f"where {' and '.join(conditions)}" if conditions else ""), parameters


def _report(
    by: Grouping,
    from_day: date | None,
    to_day: date | None,
    sums: dict[_Key, tuple[float, ...]],
    rejected: dict[_Key, int],
) -> UsageReport:
    keys = sums.keys() if by == "model" else sums.keys() | rejected.keys()
    groups = [
        Group(
            day=day,
            model=model or None,
            proxy_endpoint_id=endpoint_id,
            slug=slug,
            totals=_totals(
                sums.get((day, model, endpoint_id, slug)),
                None if by == "model" else rejected.get((day, model, endpoint_id, slug), 0),
            ),
        )
        for day, model, endpoint_id, slug in keys
    ]
    groups.sort(
        key=lambda g: (
            g.day or "",
            g.totals.cost_cents,
            g.totals.calls,
            g.slug or g.model or "",
        ),
        reverse=True,
    )
    whole = [sum(column) for column in zip(*sums.values(), strict=True)]
    return UsageReport(
        by=by,
        from_day=from_day,
        to_day=to_day,
        totals=_totals(tuple(whole) or None, sum(rejected.values())),
        groups=groups,
    )


def _totals(sums: tuple[float, ...] | None, rejected: int | None) -> Totals:
    if sums is None:
        return Totals(rejected=rejected)
    calls, errors, unpriced, maybe_billed, cost_cents, estimated_cents, value_cents, *tokens = sums
    return Totals(
        calls=int(calls),
        errors=int(errors),
        tokens=TokenCounts(**dict(zip(token_counts.NAMES, map(int, tokens), strict=True))),
        cost_cents=float(cost_cents),
        estimated_cents=float(estimated_cents),
        value_cents=float(value_cents),
        unpriced=int(unpriced),
        maybe_billed=int(maybe_billed),
        rejected=rejected,
    )
