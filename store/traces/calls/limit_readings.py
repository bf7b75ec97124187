"""Storing and reading of recently stated shares of the windows of subscriptions.

There is one row for each stated share of a window, with the instants at which it was first and last
stated, so an account has at most about a hundred rows for a window. Rows are kept for as long as
the longest window and two days. They belong to accounts and not to calls, so removing calls leaves
them."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from metering.entry import UsageLogEntry
from metering.limit_windows import Observation, Observed, WindowState, find_state, list_stated
from runtime import clock
from store.database import list_columns, open_readonly
from store.traces.sums.rollup import UNKNOWN
from store.traces.sums.usage_report import READ_TIMEOUT_S

KEPT = timedelta(days=9)
# A client that names another account with each call makes no more rows than these have.
MAX_ACCOUNTS = 1_000

type _Key = tuple[str, str, str, float]  # account, window, resets_at, used
type _Times = tuple[str, str, str | None]  # first_read_at, last_read_at, status

_UPSERT = (
    "insert into limit_readings"
    " (account, window, resets_at, used, first_read_at, last_read_at, status)"
    " values (?, ?, ?, ?, ?, ?, ?)"
    " on conflict (account, window, resets_at, used) do update set"
    " first_read_at = min(first_read_at, excluded.first_read_at),"
    " status = iif(excluded.last_read_at >= last_read_at, excluded.status, status),"
    " last_read_at = max(last_read_at, excluded.last_read_at)"
)


def write_readings(connection: sqlite3.Connection, entries: Iterable[UsageLogEntry]) -> None:
    """Store the shares of windows that the responses of calls stated. The caller holds the write lock."""
    found = _collect(entries)
    if not found:
        return
    refused = _find_refused(connection, {account for account, *_ in found})
    connection.executemany(
        _UPSERT, [(*key, *times) for key, times in found.items() if key[0] not in refused]
    )
    newest = max(last_at for _, last_at, _ in found.values())
    before = clock.format_ms(clock.parse_instant(newest) - KEPT)
    connection.execute("delete from limit_readings where last_read_at < ?", (before,))


def _collect(entries: Iterable[UsageLogEntry]) -> dict[_Key, _Times]:
    found: dict[_Key, _Times] = {}
    for entry in entries:
        limits = entry.rate_limits
        if limits is None or not limits.is_unified:
            continue
        account = limits.account or entry.credential_hmac or UNKNOWN
        read_at = _find_read_at(entry)
        for window, used, resets_at, status in list_stated(limits):
            key = (account, window, resets_at or "", used)
            first_at, last_at, of_last = found.get(key, (read_at, read_at, status))
            found[key] = (
                min(first_at, read_at),
                max(last_at, read_at),
                status if read_at >= last_at else of_last,
            )
    return found


def _find_read_at(entry: UsageLogEntry) -> str:
    """Return the instant at which the response of a call began, which states the shares."""
    created_at = clock.parse_instant(entry.created_at)
    return clock.format_ms(created_at + timedelta(milliseconds=entry.ttfb_ms or 0))


def _find_refused(connection: sqlite3.Connection, accounts: set[str]) -> set[str]:
    """Return those accounts without rows that must not get any, because ``MAX_ACCOUNTS`` have some."""
    new = {
        account
        for account in accounts
        if connection.execute(
            "select 1 from limit_readings where account = ? limit 1", (account,)
        ).fetchone()
        is None
    }
    if not new:
        return new
    known = len({account for account, _ in _iter_windows(connection)})
    return set(sorted(new)[max(0, MAX_ACCOUNTS - known) :])


def read_states(connection: sqlite3.Connection, now: datetime) -> list[WindowState]:
    """Return the windows of accounts that had calls recently; the last read account comes first.

    Within an account the shortest window comes first. Empty if the recorder has not created the table.
    Raises sqlite3.Error."""
    if not list_columns(connection, "limit_readings"):
        return []
    states = [
        find_state(_read_observed(connection, *window), now) for window in _iter_windows(connection)
    ]
    recent = [each for each in states if each.read_at > now - KEPT]
    newest: dict[str, datetime] = {}
    for each in recent:
        newest[each.account] = max(each.read_at, newest.get(each.account, each.read_at))
    return sorted(
        recent, key=lambda each: (-newest[each.account].timestamp(), each.account, each.window)
    )


def read_states_of(path: Path, now: datetime) -> list[WindowState]:
    """Return the windows in the trace database at ``path``, empty if there is none.

    See ``read_states``. Raises sqlite3.Error."""
    if not path.exists():
        return []
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as connection:
        return read_states(connection, now)


def _iter_windows(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield account and window of all rows, each found by one look-up in the primary key."""
    place = ("", "")
    row = connection.execute("select account, window from limit_readings order by 1, 2").fetchone()
    while row is not None:
        place = (row[0], row[1])
        yield place
        row = connection.execute(
            "select account, window from limit_readings where (account, window) > (?, ?)"
            " order by account, window limit 1",
            place,
        ).fetchone()


def _read_observed(connection: sqlite3.Connection, account: str, window: str) -> Observed:
    """Return the shares that were stated of a window before its next reset, and the last one before that."""
    (resets_at,) = connection.execute(
        "select max(resets_at) from limit_readings where account = ? and window = ?",
        (account, window),
    ).fetchone()
    rows = connection.execute(
        "select used, status, first_read_at, last_read_at from limit_readings"
        " where account = ? and window = ? and resets_at = ?",
        (account, window, resets_at),
    ).fetchall()
    before = connection.execute(
        "select used, max(last_read_at) from limit_readings where account = ? and window = ?"
        " and resets_at = (select max(resets_at) from limit_readings"
        " where account = ? and window = ? and resets_at < ?)",
        (account, window, account, window, resets_at),
    ).fetchone()
    return Observed(
        account=account,
        window=window,
        resets_at=clock.parse_instant(resets_at) if resets_at else None,
        observations=[
            Observation(
                used=used,
                status=status,
                first_at=clock.parse_instant(first_at),
                last_at=clock.parse_instant(last_at),
            )
            for used, status, first_at, last_at in rows
        ],
        used_before=before[0],
    )
