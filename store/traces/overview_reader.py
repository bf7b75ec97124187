"""Reading the sums and timings of a period, by step and group, for the overview.

Whole days come from the sums of days, the rest of a period from those of hours; so a report takes the same
time however many calls there were. What these sums are not kept by is read from the calls, the newest first,
under a limit of time: ``Found.back_to`` says how far that came.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from store.database import list_columns
from store.traces import agent_sums, call_rows, histograms, rollup, timings, unnamed_sessions
from store.traces.rollup import find_product
from store.traces.timings import MEASURES, NOTHING, Timing
from store.traces.unnamed_sums import read_unnamed
from store.traces.usage_report import Sums, list_sums

ROWS_TIME_S = 1.0
_PROGRESS_STEPS = 20_000
# The columns that groups and filters have in the sums; in calls also the last two.
COLUMNS = {
    "endpoint": "slug",
    "model": "model",
    "client": "client",
    "credential": "credential_hmac",
    "billing": "billing",
}
AGENT_COLUMNS = {"session": "session_id", "agent": "agent_id"}
SHARES = (
    "requests_share",
    "tokens_share",
    "input_tokens_share",
    "output_tokens_share",
    "unified_5h_share",
    "unified_7d_share",
)
_OF_CALL = {
    "hour": "substr(u.created_at, 1, 13)",
    "slug": "u.slug",
    "client": "product_of(u.client)",
    "credential_hmac": "coalesce(u.credential_hmac, '')",
    "session_id": f"coalesce({unnamed_sessions.SESSION}, '')",
    "agent_id": "coalesce(u.agent_id, '')",
}
_OF_SESSION = f"u.id in ({unnamed_sessions.CALLS})"
_DAY = timedelta(days=1)

# The name of a step (an hour or a day as text) and of a group.
type Cell = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The part of the sums to read. ``by`` is the name of a group, None for all in one; ``hourly``: the
    steps are hours."""

    start: datetime
    end: datetime
    filters: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    hourly: bool = False


@dataclass(slots=True)
class Found:
    """Sums by step and group, and timings by group.

    Where reading calls took too long, there are those from ``back_to`` on alone."""

    cells: dict[Cell, Sums] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    back_to: datetime | None = None


class OverviewReader:
    """Reads the sums of one organisation by a read-only connection. Every method may raise
    sqlite3.Error."""

    def __init__(self, db: sqlite3.Connection, rows_time_s: float = ROWS_TIME_S) -> None:
        """Take a connection that somebody else closes. ``rows_time_s`` is how long calls are read."""
        self._db = db
        self._rows_time_s = rows_time_s

    @property
    def is_ready(self) -> bool:
        """Return whether the recorder has made the tables that are read here."""
        return bool(list_columns(self._db, "timings_daily"))

    def read(self, query: Query) -> Found:
        """Return the sums and timings of a period, from the smallest tables that have them."""
        names = {*query.filters, *filter(None, [query.by])}
        if not names & AGENT_COLUMNS.keys():
            return Found(self._read_sums(query), self._read_timings(query))
        if not query.filters and not query.hourly:
            return Found(self._read_agents(query))
        return self._read_calls(query)

    def sum_cents(self, query: Query) -> tuple[float, float]:
        """Return the cost of a period, and its value that a subscription covers."""
        cost, value = 0.0, 0.0
        for value_cents, _, _, _, cost_cents, *_ in self._read_sums(query).values():
            cost, value = cost + cost_cents, value + value_cents
        return cost, value

    def find_first_hour(self) -> datetime | None:
        """Return the hour of the organisation's first call, None where there is none."""
        (hour,) = self._db.execute("select min(hour) from usage_hourly").fetchone()
        return None if hour is None else _parse(hour)

    def count_rejected(self, query: Query) -> dict[str, int]:
        """Return the numbers of requests that the rate limit refused, by endpoint."""
        slug = query.filters.get("endpoint")
        where, parameters = ("", []) if slug is None else (" and slug = ?", [slug])
        rows = self._db.execute(
            "select slug, sum(count) from rejections_hourly"  # noqa: S608 - our own text
            f" where hour >= ? and hour < ?{where} group by slug",
            [_format(query.start), _format(query.end), *parameters],
        )
        return dict(rows.fetchall())

    def find_headroom(self, query: Query) -> dict[str, float]:
        """Return the lowest share of each limit of the upstream that remained, where it was stated."""
        credential = query.filters.get("credential")
        where, parameters = (
            ("", []) if credential is None else (" and credential_hmac = ?", [credential])
        )
        row = self._db.execute(
            f"select {', '.join(f'min({name})' for name in SHARES)} from rate_limits_hourly"  # noqa: S608
            f" where hour >= ? and hour < ?{where}",
            [_format(query.start), _format(query.end), *parameters],
        ).fetchone()
        return {name: share for name, share in zip(SHARES, row, strict=True) if share is not None}

    def find_titles(self, session_ids: Sequence[str]) -> dict[str, str | None]:
        """Return the titles of the sessions that are still there."""
        marks = ", ".join("?" * len(session_ids))
        rows = self._db.execute(
            f"select session_id, title from sessions where session_id in ({marks})",  # noqa: S608
            session_ids,
        )
        return dict(rows.fetchall())

    # -- sums -----------------------------------------------------------------------------------------

    def _read_sums(self, query: Query) -> dict[Cell, Sums]:
        cells: dict[Cell, Sums] = {}
        left = rollup.find_day_left(self._db)
        for is_daily, start, end in _divide(query, left):
            table, at = ("usage_daily", "day") if is_daily else ("usage_hourly", "hour")
            step = at if is_daily or query.hourly else "substr(hour, 1, 10)"
            _add(cells, self._select_sums(query, table, step, at, (start, end), COLUMNS))
        return cells

    def _read_agents(self, query: Query) -> dict[Cell, Sums]:
        days = _format(query.start)[:10], _format(query.end + _DAY - timedelta(hours=1))[:10]
        columns = AGENT_COLUMNS
        cells = self._select_sums(query, "agents_daily", "day", "day", days, columns)
        if query.by == "session":
            for (day, name), sums in read_unnamed(self._db, *days).items():
                if (rest := cells.get((day, ""))) is not None:  # those that name no session
                    cells[day, ""] = tuple(max(0, a - b) for a, b in zip(rest, sums, strict=True))
                    cells[day, name] = sums
        return {cell: sums for cell, sums in cells.items() if any(sums)}

    def _select_sums(
        self,
        query: Query,
        table: str,
        step: str,
        at: str,
        between: tuple[str, str],
        columns: Mapping[str, str],
    ) -> dict[Cell, Sums]:
        """Return the sums of the rows of a table between two values of the column ``at``."""
        group = "''" if query.by is None else columns[query.by]
        where, parameters = _write_filters(query.filters, columns)
        present = {*rollup.SUMS, "billing"} if table != "agents_daily" else {*agent_sums.SUMS}
        rows = self._db.execute(
            f"select {step}, {group}, {', '.join(list_sums(present))} from {table}"  # noqa: S608 - our own names
            f" where {at} >= ? and {at} < ?{where} group by 1, 2",
            [*between, *parameters],
        )
        return {row[:2]: row[2:] for row in rows}

    def _read_timings(self, query: Query) -> dict[str, Timing]:
        """Return the timings by group, of whole days."""
        group = "''" if query.by is None else COLUMNS[query.by]
        where, parameters = _write_filters(query.filters, COLUMNS)
        rows = self._db.execute(
            f"select {group}, {', '.join(MEASURES)} from timings_daily"  # noqa: S608 - our own names
            f" where day >= ? and day < ?{where}",
            [
                _format(query.start)[:10],
                _format(query.end + _DAY - timedelta(hours=1))[:10],
                *parameters,
            ],
        )
        found = defaultdict[str, list[int]](lambda: [0] * len(MEASURES))
        for name, *stored in rows:
            sums = found[name]
            for place, each in enumerate(stored):
                sums[place] += histograms.unpack(each)
        return {name: Timing(*sums) for name, sums in found.items()}

    # -- calls ----------------------------------------------------------------------------------------

    def _read_calls(self, query: Query) -> Found:
        """Return what is read from calls, as far as the time allows: step by step, the newest first."""
        self._db.create_function("product_of", 1, find_product, deterministic=True)
        found = Found()
        with _limited(self._db, self._rows_time_s):
            for start, end in _list_parts(query):
                try:
                    cells = self._select_calls(query, start, end)
                    times = self._select_times(query, start, end)
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                        raise
                    found.back_to = end
                    break
                _add(found.cells, cells)
                for name, timing in times.items():
                    found.timings[name] = found.timings.get(name, NOTHING) + timing
        return found

    def _select_calls(self, query: Query, start: datetime, end: datetime) -> dict[Cell, Sums]:
        where = "u.created_at >= :start and u.created_at < :end"
        if query.filters.get("session"):
            where += f" and {_OF_SESSION}"
        rest = [f"{_ALL_COLUMNS[name]} = :{name}" for name in query.filters]
        needed = {_ALL_COLUMNS[name] for name in (*query.filters, query.by) if name} | {"hour"}
        keys = {name: sql for name, sql in _OF_CALL.items() if name in needed}
        source = call_rows.make_source(self._db, where, keys)
        step = "hour" if query.hourly else "substr(hour, 1, 10)"
        group = "''" if query.by is None else _ALL_COLUMNS[query.by]
        rows = self._db.execute(
            f"select {step}, {group}, {', '.join(list_sums({*call_rows.SUMS, 'billing'}))}"  # noqa: S608
            f" from {source} where {' and '.join(rest) or 'true'} group by 1, 2",
            _bind(query, start, end),
        )
        return {row[:2]: row[2:] for row in rows}

    def _select_times(self, query: Query, start: datetime, end: datetime) -> dict[str, Timing]:
        columns = {"model": "coalesce(u.model, '')", "billing": call_rows.billing_column(self._db)}
        columns |= {name: _OF_CALL[_ALL_COLUMNS[name]] for name in _ALL_COLUMNS.keys() - columns}
        conditions = [f"{columns[name]} = :{name}" for name in query.filters]
        if query.filters.get("session"):
            conditions.append(_OF_SESSION)
        group = "''" if query.by is None else columns[query.by]
        rows = self._db.execute(
            f"select {group}, {timings.SELECTED} from usage as u"  # noqa: S608 - our own text
            " where u.created_at >= :start and u.created_at < :end"
            f"{''.join(f' and {each}' for each in conditions)}",
            _bind(query, start, end),
        )
        values = defaultdict[str, list[tuple[float | None, ...]]](list)
        for row in rows:
            values[row[0]].append(row[1:])
        return {name: timings.measure_all(each) for name, each in values.items()}


_ALL_COLUMNS = COLUMNS | AGENT_COLUMNS


def _bind(query: Query, start: datetime, end: datetime) -> dict[str, str | int | None]:
    """Return the values for the SQL over calls."""
    return {
        "start": _format(start),
        "end": _format(end),
        **query.filters,
        **unnamed_sessions.bind(query.filters.get("session", "")),
    }


def _write_filters(filters: Mapping[str, str], columns: Mapping[str, str]) -> tuple[str, list[str]]:
    conditions = "".join(f" and {columns[name]} = ?" for name in filters)
    return conditions, list(filters.values())


def _divide(query: Query, left: int | None) -> Iterator[tuple[bool, str, str]]:
    """Yield the parts of a period: whether the sums of days have it, from where, and to where."""
    start, end = query.start, query.end
    if query.hourly:
        yield False, _format(start), _format(end)
        return
    first = start if start.hour == 0 else start.replace(hour=0) + _DAY  # the first whole day
    last = end.replace(hour=0)
    if left is not None:
        there = _parse(f"{left // 10_000:04}-{left // 100 % 100:02}-{left % 100:02}T00") + _DAY
        first = min(max(first, there), max(last, start))
    if first >= last:
        yield False, _format(start), _format(end)
        return
    if start < first:
        yield False, _format(start), _format(first)
    yield True, _format(first)[:10], _format(last)[:10]
    if last < end:
        yield False, _format(last), _format(end)


def _list_parts(query: Query) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of a period, the newest first. The calls of one session are one part: they have an
    index of their own."""
    if query.filters.get("session"):
        yield query.start, query.end
        return
    length = timedelta(hours=1) if query.hourly else _DAY
    end = query.end
    while end > query.start:
        start = max(
            query.start,
            (end - timedelta(hours=1)).replace(hour=0) if length == _DAY else end - length,
        )
        yield start, end
        end = start


def _add(cells: dict[Cell, Sums], more: Mapping[Cell, Sums]) -> None:
    for cell, sums in more.items():
        known = cells.get(cell)
        cells[cell] = sums if known is None else tuple(map(sum, zip(known, sums, strict=True)))


@contextmanager
def _limited(db: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection does when the time is over."""
    ends_at_s = time.monotonic() + seconds
    db.set_progress_handler(lambda: time.monotonic() > ends_at_s, _PROGRESS_STEPS)
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)


def _format(instant: datetime) -> str:
    return instant.isoformat()[:13]


def _parse(hour: str) -> datetime:
    return datetime.fromisoformat(f"{hour}:00").replace(tzinfo=UTC)
