"""The recorded usage of a period, in the form that a reconciliation compares.

It is read from the line items of entries, which name the model of each pass. For days of which
retention has removed entries, it is read from the hourly sums, which remain. In these, web searches
and their cost are in the row of the model, and are separated by their list price."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

from extensions.reconcile.comparison import (
    TOKENS,
    WEB_SEARCH,
    CallCounts,
    Cause,
    Figures,
    Recorded,
    RecordedUsage,
)
from metering import token_counts
from metering.components import SEARCH_UNIT, WEB_SEARCH as SEARCH_COMPONENT
from metering.prices import PriceTable
from metering.token_counts import TokenCounts
from store.database import list_columns, open_readonly, snapshot
from store.traces.calls.costs import from_real
from store.traces.sums.booking_sql import IS_OF_CLASS, IS_SEARCH, MAY_BE_BILLED
from store.traces.sums.rollup import OVERAGE, PAID_BY_OTHERS, SUBSCRIPTION

READ_TIMEOUT_S = 5.0
_COUNTS = tuple(each.name for each in fields(CallCounts))


def read_recorded_usage(
    path: Path,
    from_day: date,
    to_day: date,
    prices: PriceTable,
    upstream_organization_id: str | None = None,
) -> RecordedUsage:
    """Return the usage of the calls that arrived on these UTC days, both included.

    ``prices`` are used to separate web searches on days of which retention has removed entries. Left
    out, with a note, are calls that a subscription or a customer pays for, calls of endpoints with
    their own upstream, and calls to another upstream organisation than ``upstream_organization_id``.
    Raises sqlite3.Error if the database cannot be read."""
    if not path.exists():
        return RecordedUsage()
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        db.row_factory = sqlite3.Row
        if not list_columns(db, "usage_hourly"):  # the recorder makes the tables a moment later
            return RecordedUsage()
        period = (from_day.isoformat(), (to_day + timedelta(days=1)).isoformat())
        organization = (upstream_organization_id,) * _LEFT_OUT.count("?")
        with snapshot(db):
            pruned = _find_pruned(db, period)
            rows = [
                row
                for query in (_make_lines_query(), _make_calls_query())
                for row in db.execute(query, organization + period)
                if row["day"] not in pruned
            ]
            if pruned:
                hourly = db.execute(_make_hourly_query(), period)
                rows += [row for row in hourly if row["day"] in pruned]
    items = tuple(item for row in rows if not row["left_out"] for item in _make_items(row, prices))
    return RecordedUsage(items=items, notes=tuple(_make_notes(rows, pruned)))


def _find_pruned(db: sqlite3.Connection, period: tuple[str, str]) -> dict[str, int]:
    """Return the number of removed entries for each day that has any.

    It relies on ``usage_hourly.entries`` counting each call once, however many passes it has."""
    kept = dict(
        db.execute(
            "select substr(created_at, 1, 10), count(*) from usage"
            " where created_at >= ? and created_at < ? group by 1",
            period,
        )
    )
    counted = db.execute(
        "select substr(hour, 1, 10), sum(entries) from usage_hourly"
        " where hour >= ? and hour < ? group by 1",
        period,
    )
    return {
        day: entries - kept.get(day, 0) for day, entries in counted if entries > kept.get(day, 0)
    }


# The note about a call that is left out, null for one that is compared.
_LEFT_OUT = (
    f"case when u.billing in {PAID_BY_OTHERS} then u.billing"
    " when u.upstream is not null then 'other_upstream'"
    " when ? is not null and u.upstream_organization_id <> ? then 'other_organization' end"
)


def _make_lines_query() -> str:
    """Return the SQL for sums of line items by day, model and workspace.

    Web searches, calls of the batch interface and each reason to leave calls out have rows of their
    own. The parameters are those of ``_LEFT_OUT``, then the period."""
    tokens = ", ".join(
        f"sum(case when {sql} then c.quantity else 0 end) as {name}"
        for name, sql in IS_OF_CLASS.items()
    )
    return f"""
        select {_LEFT_OUT} as left_out, substr(u.created_at, 1, 10) as day,
            {IS_SEARCH} as is_search, case when not ({IS_SEARCH}) then c.model end as model,
            u.workspace_id as workspace_id, u.product = 'batch' as is_batch, {tokens},
            sum(case when {IS_SEARCH} then c.quantity else 0 end) as searches,
            total(c.cents) as cents, 0 as calls,
            count(distinct case when c.cents is null then u.id end) as unpriced,
            count(distinct case when c.estimated then u.id end) as estimated,
            count(distinct case when c.unbilled_reason is not null then u.id end) as not_billed,
            0 as cut, 0 as no_response
        from usage as u join usage_cost as c on c.usage_id = u.id
        where u.created_at >= ? and u.created_at < ?
        group by 1, 2, 3, 4, 5, 6
    """  # noqa: S608 - our own names


def _make_calls_query() -> str:
    """Return the SQL for numbers of calls by day and model, without tokens and cost."""
    tokens = ", ".join(f"0 as {name}" for name in token_counts.NAMES)
    return f"""
        select {_LEFT_OUT} as left_out, substr(u.created_at, 1, 10) as day,
            0 as is_search, coalesce(u.model, u.request_model) as model,
            u.workspace_id as workspace_id, u.product = 'batch' as is_batch, {tokens},
            0 as searches, 0.0 as cents, count(*) as calls, 0 as unpriced, 0 as estimated,
            0 as not_billed, sum(u.usage_source = 'partial') as cut,
            sum({MAY_BE_BILLED}) as no_response
        from usage as u
        where u.created_at >= ? and u.created_at < ?
        group by 1, 2, 3, 4, 5, 6
    """  # noqa: S608 - our own names


def _make_hourly_query() -> str:
    """Return the SQL for hourly sums by day and model, with web searches in the row of the model."""
    tokens = ", ".join(f"sum(h.{name}) as {name}" for name in token_counts.NAMES)
    return f"""
        select case when h.billing = '{OVERAGE}' then '{SUBSCRIPTION}'
                when h.billing in {PAID_BY_OTHERS} then h.billing end as left_out,
            substr(h.hour, 1, 10) as day, 0 as is_search, nullif(h.model, '') as model,
            null as workspace_id, 0 as is_batch, {tokens}, sum(h.web_search_requests) as searches,
            sum(h.cost_cents) as cents, sum(h.entries) as calls, sum(h.unpriced) as unpriced,
            0 as estimated, 0 as not_billed, 0 as cut, sum(h.maybe_billed) as no_response
        from usage_hourly as h
        where h.hour >= ? and h.hour < ?
        group by 1, 2, 3, 4, 5
    """  # noqa: S608 - our own names


def _make_items(row: sqlite3.Row, prices: PriceTable) -> Iterator[Recorded]:
    """Yield the usage in a row: tokens or web searches, or both for a row of hourly sums."""
    day, workspace_id = date.fromisoformat(row["day"]), row["workspace_id"]
    cents, searches = from_real(row["cents"]) or Decimal(0), row["searches"]
    search_cents = cents
    if not row["is_search"]:
        search_cents = min(cents, _price_searches(searches, row["model"], day, prices))
        yield Recorded(
            day=day,
            kind=TOKENS,
            model=row["model"],
            figures=Figures(
                tokens=TokenCounts(**{name: row[name] for name in token_counts.NAMES}),
                cost_cents=cents - search_cents,
            ),
            counts=CallCounts(**{name: row[name] for name in _COUNTS}),
            workspace_id=workspace_id,
            is_batch=bool(row["is_batch"]),
        )
    if searches:
        yield Recorded(
            day=day,
            kind=WEB_SEARCH,
            model=None,
            figures=Figures(web_search_requests=searches, cost_cents=search_cents),
            workspace_id=workspace_id,
            is_batch=bool(row["is_batch"]),
        )


def _price_searches(searches: int, model: str | None, day: date, prices: PriceTable) -> Decimal:
    """Return the list price of web searches in cents, 0 if the model has no known price.

    Searches of such a model are in no cost either."""
    rates = prices.find_rates(model or "", datetime.combine(day, time(), UTC))
    rate = rates and rates.by_component[SEARCH_COMPONENT.name]
    return searches * (rate or Decimal(0)) * 100 / SEARCH_UNIT


def _make_notes(rows: Iterable[sqlite3.Row], pruned: dict[str, int]) -> Iterator[Cause]:
    left_out: dict[str, list[sqlite3.Row]] = {}
    for row in rows:
        if row["left_out"]:
            left_out.setdefault(row["left_out"], []).append(row)
    for name, found in sorted(left_out.items()):
        cents = sum((from_real(row["cents"]) or Decimal(0) for row in found), Decimal(0))
        yield Cause(name=name, calls=sum(row["calls"] for row in found), cost_cents=cents)
    if pruned:
        yield Cause(name="pruned", calls=sum(pruned.values()))
