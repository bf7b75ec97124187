"""The rate limits that the upstream stated, stored for each call and for each hour and credential.

Rows of an hour are updated in the transaction that inserts its calls, and stay when retention
removes the calls. So their number is bounded, whatever clients send: the first ``MAX_CREDENTIALS``
of an hour have rows, all others share one."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Protocol

from metering.rate_limits import RateLimits
from store.traces.row_writer import insert_rows
from store.traces.sums.rollup import MAX_CREDENTIALS, OTHER, UNKNOWN, admit

_NAMES = RateLimits._fields
RATE_LIMITED, OVERLOADED = 429, 529


@dataclass(slots=True, kw_only=True)
class _Hour:
    """The amounts to add to an hour's row, and the lowest remaining share of each limit."""

    calls: int = 0
    rate_limited: int = 0
    overloaded: int = 0
    retries: int = 0
    retry_after_s: float = 0.0
    requests_share: float | None = None
    tokens_share: float | None = None
    input_tokens_share: float | None = None
    output_tokens_share: float | None = None
    unified_5h_share: float | None = None
    unified_7d_share: float | None = None


_COLUMNS = tuple(field.name for field in fields(_Hour))
_SHARES = tuple(name for name in _COLUMNS if name.endswith("_share"))
_read_hour = attrgetter(*_COLUMNS)
_KEYS = ("hour", "credential_hmac")
_UPSERT = (
    f"insert into rate_limits_hourly ({', '.join((*_KEYS, *_COLUMNS))})"  # noqa: S608 - our own names
    f" values ({', '.join('?' * len((*_KEYS, *_COLUMNS)))})"
    f" on conflict ({', '.join(_KEYS)}) do update set "
    + ", ".join(
        # min() of a null is null.
        f"{name} = min(coalesce({name}, excluded.{name}), coalesce(excluded.{name}, {name}))"
        if name in _SHARES
        else f"{name} = {name} + excluded.{name}"
        for name in _COLUMNS
    )
)


class Call(Protocol):
    """The fields of a call that the row of its hour depends on. Entries and database rows have them."""

    @property
    def created_at(self) -> str: ...
    @property
    def credential_hmac(self) -> str | None: ...
    @property
    def status_code(self) -> int | None: ...
    @property
    def retry_count(self) -> int | None: ...


class Hours:
    """The amounts that one transaction adds to the rows of hours."""

    def __init__(self) -> None:
        self._hours = defaultdict[tuple[str, str], _Hour](_Hour)

    def add(self, call: Call, limits: RateLimits | None = None) -> None:
        """Add a call with the limits that its response stated."""
        hour = self._hours[call.created_at[:13], call.credential_hmac or UNKNOWN]
        hour.calls += 1
        hour.retries += bool(call.retry_count)
        hour.rate_limited += call.status_code == RATE_LIMITED
        hour.overloaded += call.status_code == OVERLOADED
        if limits is None:
            return
        if call.status_code is not None and call.status_code >= 400:
            hour.retry_after_s += limits.retry_after_s or 0
        for name, share in list_shares(limits).items():
            if share is not None:
                lowest = getattr(hour, name)
                setattr(hour, name, share if lowest is None else min(lowest, share))

    def write(self, connection: sqlite3.Connection) -> None:
        """Add the collected amounts to the table. The caller holds the write lock."""
        known = {hour: _read_credentials(connection, hour) for hour, _ in self._hours}
        connection.executemany(
            _UPSERT,
            [
                (hour, admit(credential, known[hour], MAX_CREDENTIALS), *_read_hour(amounts))
                for (hour, credential), amounts in self._hours.items()
            ],
        )


def _read_credentials(connection: sqlite3.Connection, hour: str) -> set[str]:
    rows = connection.execute(
        "select credential_hmac from rate_limits_hourly where hour = ?", (hour,)
    )
    return {credential for (credential,) in rows} - {UNKNOWN, OTHER}


def list_shares(limits: RateLimits) -> dict[str, float | None]:
    """Return the remaining share (0 to 1) of each limit by the column of the hour, None if not stated."""
    return {
        "requests_share": _divide(limits.requests_remaining, limits.requests_limit),
        "tokens_share": _divide(limits.tokens_remaining, limits.tokens_limit),
        "input_tokens_share": _divide(limits.input_tokens_remaining, limits.input_tokens_limit),
        "output_tokens_share": _divide(limits.output_tokens_remaining, limits.output_tokens_limit),
        "unified_5h_share": _subtract(limits.unified_5h_utilization),
        "unified_7d_share": _subtract(limits.unified_7d_utilization),
    }


def _divide(remaining: int | None, limit: int | None) -> float | None:
    return min(remaining / limit, 1.0) if remaining is not None and limit else None


def _subtract(used: float | None) -> float | None:
    return None if used is None else round(max(1 - used, 0.0), 6)


def write_limits(connection: sqlite3.Connection, stated: Iterable[tuple[int, RateLimits]]) -> None:
    """Insert the limits that the responses to calls stated, given by row id."""
    rows = ((usage_id, *limits) for usage_id, limits in stated)
    insert_rows(connection, "rate_limits", ("usage_id", *_NAMES), rows)


def read_limits(connection: sqlite3.Connection, usage_id: int) -> RateLimits | None:
    """Return the limits that the response to a call stated, or None."""
    row = connection.execute(
        f"select {', '.join(_NAMES)} from rate_limits where usage_id = ?",  # noqa: S608 - our names
        (usage_id,),
    ).fetchone()
    if row is None:
        return None
    values = dict(zip(_NAMES, row, strict=True))
    if values["overage_in_use"] is not None:
        values["overage_in_use"] = bool(values["overage_in_use"])
    return RateLimits(**values)
