"""Reading of the sums and timings of a period, by step and group, for the overview.

Whole days are read from the sums of days, the rest of a period from those of hours; so a report
takes the same time however many calls there were. Queries for which there are no sums are computed
from the calls, newest first, under a time limit: ``Found.back_to`` says how far that came."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from metering import token_counts
from runtime.intervals import HOUR
from store.database import bind_list, list_columns
from store.spool.format import BUDGET_BUCKET
from store.traces.calls.credential_accounts import read_accounts
from store.traces.sessions import agent_sums
from store.traces.sessions.unnamed_sums import read_unnamed
from store.traces.sums import histograms, rollup, tag_sums, timing_groups
from store.traces.sums.overview_calls import SQL_OF_CALL, read_calls
from store.traces.sums.overview_query import (
    AGENT_COLUMNS,
    COLUMNS,
    DAY,
    OF_CALLS,
    SAID_COLUMNS,
    Cell,
    Found,
    Query,
    Stretch,
    divide,
    format_hour,
    is_value,
    parse_hour,
    write_filters,
)
from store.traces.sums.requested_models import find_requested
from store.traces.sums.requested_sums import Part, read_requested, take_out
from store.traces.sums.rollup import find_product
from store.traces.sums.sum_columns import (
    VALUE_OF_BILLING,
    Sums,
    add_sums,
    count_entries,
    list_days,
    list_sums,
    order_sums,
)
from store.traces.sums.timings import ALL, MEASURES, NOTHING, Timing

ROWS_TIME_S = 1.0  # of reading calls, where no table of sums has what is asked for
SHARES = (
    "requests_share",
    "tokens_share",
    "input_tokens_share",
    "output_tokens_share",
    "unified_5h_share",
    "unified_7d_share",
)
_SUMS = ", ".join(list_sums({*rollup.SUMS, "billing"}))
LARGEST = 100  # sessions or agents by each measure; pages list half as many


class OverviewReader:
    """A reader of the sums of one organisation by a read-only connection.

    Every method may raise sqlite3.Error."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Read by ``db``, which the caller closes."""
        self._db = db

    @property
    def is_ready(self) -> bool:
        """Return whether the recorder has created the tables of sums."""
        return bool(list_columns(self._db, "timings_daily"))

    def read(self, query: Query, *, timed: bool = True) -> Found:
        """Return the sums of a period, from the smallest tables that have them.

        With ``timed`` the timings are read too."""
        found = self._read(query, timed=timed)
        if query.by == "credential":
            _merge_accounts(found, read_accounts(self._db))
        return found

    def _read(self, query: Query, *, timed: bool) -> Found:
        names = {*query.filters, *filter(None, [query.by])}
        if find_requested(query.filters.get("model", "")) is not None:
            return read_calls(self._db, query, ROWS_TIME_S)
        if not names & OF_CALLS:
            timings, _ = self.read_timings(query) if timed else ({}, {})
            return Found(self._read_sums(query), timings=timings)
        if not query.filters and query.by in SAID_COLUMNS:
            return Found(self._read_said(query, query.by))
        if not query.filters and not query.hourly:
            return self._read_agents(query, AGENT_COLUMNS[query.by or "session"])
        return read_calls(self._db, query, ROWS_TIME_S)

    def sum_cents(self, query: Query) -> tuple[float, float]:
        """Return (cost, value covered by subscriptions) of a period in cents."""
        where, parameters = write_filters(query.filters, COLUMNS)
        cost, value = 0.0, 0.0
        for table, at, start, end in divide(query):
            cost_cents, value_cents = self._db.execute(
                f"select total(cost_cents), {VALUE_OF_BILLING} from {table}"  # noqa: S608 - our own names
                f" where {at} >= ? and {at} < ?{where}",
                [start, end, *parameters],
            ).fetchone()
            cost, value = cost + cost_cents, value + value_cents
        return cost, value

    def find_first_hour(self) -> datetime | None:
        """Return the hour of the organisation's first call, or None."""
        (hour,) = self._db.execute("select min(hour) from usage_hourly").fetchone()
        return None if hour is None else parse_hour(hour)

    def count_rejected(self, query: Query) -> dict[str, int]:
        """Return the numbers of requests that the rate limit refused, by endpoint."""
        slug = query.filters.get("endpoint")
        where, parameters = ("", []) if slug is None else (" and slug = ?", [slug])
        rows = self._db.execute(
            "select slug, sum(count) from rejections_hourly"  # noqa: S608 - our own text
            f" where hour >= ? and hour < ?{where} group by slug",
            [format_hour(query.start), format_hour(query.end), *parameters],
        )
        return dict(rows.fetchall())

    def count_refused_by_budgets(self, day: date) -> int:
        """Return how many requests were refused because of budgets on a UTC day."""
        (count,) = self._db.execute(
            "select coalesce(sum(count), 0) from rejections_hourly where bucket = ? and hour like ?",
            (BUDGET_BUCKET, f"{day}%"),
        ).fetchone()
        return int(count)

    def find_headroom(self, query: Query) -> dict[str, float]:
        """Return the lowest remaining share (0 to 1) of each upstream limit that was stated in the period."""
        credential = query.filters.get("credential")
        where, parameters = (
            ("", [])
            if credential is None
            else (f" and {is_value('credential', 'credential_hmac', '?')}", [credential])
        )
        row = self._db.execute(
            f"select {', '.join(f'min({name})' for name in SHARES)} from rate_limits_hourly"  # noqa: S608
            f" where hour >= ? and hour < ?{where}",
            [format_hour(query.start), format_hour(query.end), *parameters],
        ).fetchone()
        return {name: share for name, share in zip(SHARES, row, strict=True) if share is not None}

    def find_titles(self, session_ids: Sequence[str]) -> dict[str, str | None]:
        """Return the titles of sessions by id, without sessions that do not exist any more."""
        marks = ", ".join("?" * len(session_ids))
        rows = self._db.execute(
            f"select session_id, title from sessions where session_id in ({marks})",  # noqa: S608
            session_ids,
        )
        return dict(rows.fetchall())

    def _read_sums(self, query: Query) -> dict[Cell, Sums]:
        cells: dict[Cell, Sums] = {}
        for stretch in divide(query):
            add_sums(cells, self._select_sums(query, stretch))
        if query.by == "model" and any(name == "" for _, name in cells):
            self._list_requested(query, cells)
        return cells

    def _list_requested(self, query: Query, cells: dict[Cell, Sums]) -> None:
        """Move the calls without a model into the cells of the models that their requests named."""
        part = Part(
            start=format_hour(query.start),
            end=format_hour(query.end),
            step=f"substr(u.created_at, 1, {13 if query.hourly else 10})",
            values={
                SQL_OF_CALL[COLUMNS[name]]: value
                for name, value in query.filters.items()
                if name != "model"  # which is empty here
            },
        )
        self._db.create_function("product_of", 1, find_product, deterministic=True)
        found = {key: order_sums(each) for key, each in read_requested(self._db, part).items()}
        for step, rest in [(step, sums) for (step, name), sums in cells.items() if name == ""]:
            here = {model: sums for (at, model), sums in found.items() if at == step}
            del cells[step, ""]
            if (left := take_out(rest, here.values())) is not None:
                cells[step, ""] = left
            cells.update({(step, model): sums for model, sums in here.items()})

    def _read_agents(self, query: Query, column: str) -> Found:
        """Return the sums of the largest sessions or agents, and the rest of each day.

        There may be thousands, so SQLite adds up the others."""
        days = format_hour(query.start)[:10], format_hour(query.end + DAY - HOUR)[:10]
        names = self._db.execute(_write_largest(column), [*days, *[LARGEST] * 3]).fetchall()
        cells = self._sum_agents(f"day, {column}", *days, column, [name for (name,) in names])
        by_day = defaultdict[str, list[Sums]](list)
        for (day, _), sums in cells.items():
            by_day[day].append(sums)
        left = {
            day: take_out(sums, by_day[day])
            for (day,), sums in self._sum_agents("day", *days).items()
        }
        rest = {day: sums for day, sums in left.items() if sums and count_entries(sums)}
        if column == AGENT_COLUMNS["session"]:
            for (day, name), sums in read_unnamed(self._db, *days).items():
                if (unnamed := cells.get((day, ""))) is not None:  # those that name no session
                    cells[day, ""] = _subtract(unnamed, sums)
                    cells[day, name] = sums
        return Found({cell: sums for cell, sums in cells.items() if any(sums)}, rest)

    def _sum_agents(
        self, group: str, first: str, end: str, column: str = "", names: Sequence[str] | None = None
    ) -> dict[Any, Sums]:
        """Return the sums of sessions and agents by the columns of ``group``.

        Days are from ``first`` to before ``end``. With ``names``, only rows with one of these values in
        ``column`` are read."""
        count = group.count(",") + 1
        where, parameters = "", [first, end]
        if names is not None:
            where = f" and {column} in (select value from json_each(?))"  # noqa: S608 - our own name
            parameters.append(bind_list(names))
        rows = self._db.execute(
            f"select {group}, {', '.join(list_sums({*agent_sums.SUMS}))} from agents_daily"  # noqa: S608 - our own names
            f" where day >= ? and day < ?{where} group by {group}",
            parameters,
        )
        return {row[:count]: row[count:] for row in rows}

    def _read_said(self, query: Query, name: str) -> dict[Cell, Sums]:
        """Return the sums by an attribute that clients send (user, project or a tag).

        The rest is that of calls without the attribute."""
        step = "hour" if query.hourly else "substr(hour, 1, 10)"
        rows = self._db.execute(
            f"select {step}, value, {', '.join(list_sums(tag_sums.SUMS))} from tags_hourly"  # noqa: S608 - our own names
            " where name = ? and value <> '' and hour >= ? and hour < ? group by 1, 2",
            (name, format_hour(query.start), format_hour(query.end)),
        )
        cells: dict[Cell, Sums] = {row[:2]: row[2:] for row in rows}
        named = defaultdict[str, list[Sums]](list)
        for (at, _), sums in cells.items():
            named[at].append(sums)
        for (at, _), whole in self._read_sums(replace(query, by=None)).items():
            rest = take_out(whole, named[at])
            if rest is not None:
                cells[at, ""] = rest
        return cells

    def _select_sums(self, query: Query, part: Stretch) -> Iterator[tuple[Cell, Sums]]:
        """Yield the sums of one part of a period, by step and group."""
        step = "substr(hour, 1, 10)" if part.at == "hour" and not query.hourly else part.at
        group = "''" if query.by is None else COLUMNS[query.by]
        where, parameters = write_filters(query.filters, COLUMNS)
        # The rows are in the order of the first column; for a second one SQLite would sort them.
        grouped = "1" if query.by is None else "1, 2"
        rows = self._db.execute(
            f"select {step}, {group}, {_SUMS} from {part.table}"  # noqa: S608 - our own names
            f" where {part.at} >= ? and {part.at} < ?{where} group by {grouped}",
            [part.start, part.end, *parameters],
        )
        return ((row[:2], row[2:]) for row in rows)

    def read_timings(self, query: Query) -> tuple[dict[str, Timing], dict[str, Timing]]:
        """Return the timings of whole days by group, and those by day.

        With at most one filter or group, most days are read from the table with added-up histograms."""
        days = list_days(query.start.date(), (query.end - HOUR).date())
        names = {*query.filters, *filter(None, [query.by])}
        cells = defaultdict[Cell, list[int]](lambda: [0] * len(MEASURES))
        if len(names) <= 1 and days:
            column = COLUMNS[names.pop()] if names else ALL
            added_up = timing_groups.list_days(self._db, days[0], f"{days[-1]}~")
            source = f"timings_by_group where name = '{column}' and"
            self._add_timings(cells, query, source, dict.fromkeys(COLUMNS, "value"), added_up)
            days = sorted({*days} - {*added_up})
        self._add_timings(cells, query, "timings_daily where", COLUMNS, days)
        groups, of_days = defaultdict[str, Timing](Timing), defaultdict[str, Timing](Timing)
        for (day, name), sums in cells.items():
            timing = Timing(*sums)
            groups[name] += timing
            of_days[day] += timing
        return dict(groups), dict(of_days)

    def _add_timings(
        self,
        cells: dict[Cell, list[int]],
        query: Query,
        source: str,
        columns: Mapping[str, str],
        days: Sequence[str],
    ) -> None:
        """Add the timings of some days from the table ``source``, which has names in ``columns``."""
        if not days:
            return
        where, parameters = write_filters(query.filters, columns)
        group = "''" if query.by is None else columns[query.by]
        rows = self._db.execute(
            f"select day, {group}, {', '.join(MEASURES)} from {source}"  # noqa: S608 - our own names
            f" day in (select value from json_each(?)){where}",
            [bind_list(days), *parameters],
        )
        for row in rows:
            histograms.add_packed(cells[row[:2]], row[2:])


def _write_largest(column: str) -> str:
    """Return SQL for the names of the groups with the largest costs, tokens and numbers of calls.

    The name "" of calls without a name may be among them."""
    largest = " union ".join(
        f"select * from (select name from sums order by {measure} desc, calls desc, name desc limit ?)"  # noqa: S608
        for measure in ("cents", "tokens", "calls")
    )
    return (
        f"with sums as materialized (select {column} as name, sum(cost_cents) as cents,"  # noqa: S608 - our own names
        f" sum({' + '.join(token_counts.NAMES)}) as tokens, sum(entries) as calls"
        f" from agents_daily where day >= ? and day < ? group by 1) {largest} union select ''"
    )


def _subtract(whole: Sums, part: Sums) -> Sums:
    """Return the difference, with no value below 0: sums of floats are not exact."""
    return tuple(max(0, a - b) for a, b in zip(whole, part, strict=True))


def _merge_accounts(found: Found, accounts: Mapping[str, str]) -> None:
    """Merge the credentials of one account into one group, named by the account."""
    cells, found.cells = found.cells, {}
    add_sums(
        found.cells,
        (((step, accounts.get(name, name)), sums) for (step, name), sums in cells.items()),
    )
    timings = {name: found.timings.pop(name) for name in list(found.timings)}
    for name, timing in timings.items():
        account = accounts.get(name, name)
        found.timings[account] = found.timings.get(account, NOTHING) + timing
