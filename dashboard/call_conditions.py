"""SQL conditions for the filters of ``call_filters``, over rows of ``usage``.

Each function takes how the rows are read and the values of one filter. Values are alternatives; the
value "" selects calls that have none.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from metering.entry import NO_ERROR
from runtime.intervals import Interval
from store.traces.sessions.unnamed_sessions import PREFIX, parse_first_id
from store.traces.sums.requested_models import find_requested
from store.traces.sums.rollup import OVERAGE, SUBSCRIPTION

type Value = str | int | float


class Condition(NamedTuple):
    """An SQL condition on a row of ``usage``, with a value for each of its question marks."""

    sql: str
    values: tuple[Value, ...] = ()

    def write_out(self) -> str:
        """Return the SQL with its values written into it, for people to read and edit."""
        parts = self.sql.split("?")
        written = (_write_value(value) for value in self.values)
        return "".join(part + value for part, value in zip(parts, (*written, ""), strict=True))

    @property
    def where(self) -> str:
        """Return the condition as a ``where`` clause with its values, "" if it holds for all rows."""
        return "" if self.sql == "true" else f" where {self.write_out()}"


class Calls(NamedTuple):
    """The way in which the rows for a condition are read. ``prefix`` is put before their columns, as
    ``u.``. ``walked``: rows are read one after the other until a page is full, so looking each up in
    other tables is faster than reading all matching rows of those tables first."""

    prefix: str = ""
    walked: bool = True


def is_column(column: str, calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that a column has one of these values; "" among them stands for null."""
    sql = f"{calls.prefix}{column}"
    return _any_named(
        values, lambda named: _is_one_of(sql, named), none=Condition(f"{sql} is null")
    )


def _any_named(
    values: Sequence[str], holds: Callable[[tuple[str, ...]], Condition], *, none: Condition
) -> Condition:
    """Return the condition for values that may include "". The others go to ``holds``; "" stands for
    ``none``; both are joined by "or"."""
    named = tuple(value for value in values if value)
    parts = [holds(named)] if named else []
    return _any_of([*parts, none] if len(named) < len(values) else parts)


def is_of_credential(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that a call used one of these credentials. A value may also be an account,
    which stands for all its credentials."""
    column = is_column("credential_hmac", calls, values)
    named = tuple(value for value in values if value)
    if not named:
        return column
    accounts = ", ".join("?" * len(named))
    of_account = Condition(
        f"{calls.prefix}credential_hmac in (select fingerprint from credential_accounts"  # noqa: S608
        f" where account in ({accounts}))",
        named,
    )
    return _any_of([column, of_account])


def _is_one_of(sql: str, values: tuple[Value, ...]) -> Condition:
    if len(values) == 1:
        return Condition(f"{sql} = ?", values)
    return Condition(f"{sql} in ({', '.join('?' * len(values))})", values)


def is_model(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition on the model: that of the response, or the requested one if the response named
    none."""
    asked = [model for value in values if (model := find_requested(value)) is not None]
    named = [value for value in values if find_requested(value) is None]
    parts = [is_column("model", calls, named)] if named else []
    if asked:
        requested = is_column("request_model", calls, asked)
        parts.append(all_of([Condition(f"{calls.prefix}model is null"), requested]))
    return _any_of(parts)


def is_client(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that a call is from one of these clients, in any version."""
    column = f"{calls.prefix}client"
    return _any_of(
        Condition(
            f"({column} = ? or {column} glob ? or {column} glob ?)",
            (value, f"{_escape_glob(value)}[/ ][0-9]*", f"{_escape_glob(value)}[/ ]v[0-9]*"),
        )
        if value
        else Condition(f"{column} is null")
        for value in values
    )


def _escape_glob(text: str) -> str:
    return re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", text)


def is_billing(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that calls are paid for in one of these ways. Paid extra usage does not count
    as subscription."""
    parts = []
    for value in values:
        if value in (OVERAGE, SUBSCRIPTION):
            stands = "is" if value == OVERAGE else "is not"
            sql = f"({calls.prefix}billing = ? and {calls.prefix}overage {stands} 1)"
            parts.append(Condition(sql, (SUBSCRIPTION,)))
        else:
            parts.append(is_column("billing", calls, [value]))
    return _any_of(parts)


def is_session(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that calls belong to one of these sessions. These may be sessions that the
    recorder put together, because the client gave them no id."""
    unnamed = f"{calls.prefix}id in (select usage_id from unnamed_calls"  # noqa: S608 - our own text
    parts = []
    for value in values:
        named = Condition(f"{calls.prefix}session_id = ?", (value,))
        first_id = parse_first_id(value)
        if not value:
            parts.append(Condition(f"({calls.prefix}session_id is null and not {unnamed}))"))
        elif first_id is None:
            parts.append(named)
        else:
            joined = Condition(f"{unnamed} where first_id = ?)", (first_id,))
            parts.append(_any_of([named, joined]))
    return _any_of(parts)


def is_status(calls: Calls, values: Sequence[str]) -> Condition:
    sql = f"{calls.prefix}status_code"
    return _any_named(
        values,
        lambda named: _is_one_of(sql, tuple(map(int, named))),
        none=Condition(f"{sql} is null"),
    )


def is_failed(calls: Calls, _values: Sequence[str]) -> Condition:
    return Condition(f"{calls.prefix}outcome not in ({', '.join('?' * len(NO_ERROR))})", NO_ERROR)


def costs_at_least(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that a call costs the smallest of these amounts (US dollars) or more."""
    least = min(map(Decimal, values))
    return Condition(f"{calls.prefix}cost_cents >= ?", (float(least * 100),))


def arrived(comparison: str, calls: Calls, values: Sequence[str]) -> Condition:
    return _any_of(
        # What is left of an instant sorts before all that begins with it.
        Condition(f"{calls.prefix}created_at {comparison} ?", (value.removesuffix("Z"),))
        for value in values
    )


def is_in_table(table: str, where: str, calls: Calls, _values: Sequence[str]) -> Condition:
    """Return the condition that ``table`` has a row for the call that fulfils the SQL ``where``."""
    return _has_row(calls, table, Condition(where))


def _has_row(calls: Calls, table: str, where: Condition, has: str = "") -> Condition:
    """Return the condition that ``table`` has a row for the call for which ``where`` holds. With ``has``
    "not ", the condition is that there is no such row."""
    if calls.walked:
        sql = (
            f"{has}exists (select 1 from {table} where usage_id = {calls.prefix}id and {where.sql})"  # noqa: S608
        )
    else:
        sql = f"{calls.prefix}id {has}in (select usage_id from {table} where {where.sql})"  # noqa: S608
    return Condition(sql, where.values)


def uses(column: str, calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that the response uses one of these tools or servers, as ``column`` says."""
    return _has_row(calls, "tool_uses", is_column(column, Calls(), values))


def is_labelled(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that a call or its session has one of these labels; "" stands for no label."""
    any_label = _has_label(calls, Condition("true"))
    return _any_named(
        values,
        lambda named: _has_label(calls, _is_one_of("label", named)),
        none=Condition(f"not {any_label.sql}", any_label.values),
    )


def _has_label(calls: Calls, label: Condition) -> Condition:
    labels = f"from labels where {label.sql} and"
    unnamed = f"select '{PREFIX}' || first_id from unnamed_calls where usage_id = {calls.prefix}id"  # noqa: S608
    return Condition(
        f"({calls.prefix}id in (select usage_id {labels} usage_id is not null)"
        f" or coalesce({calls.prefix}session_id, ({unnamed}), '')"
        f" in (select session_id {labels} session_id is not null))",
        label.values * 2,
    )


def is_tagged(key: str, calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that calls have a tag ``key:value`` with one of these values. "" stands for no
    tag with this key."""
    of_key = Condition("name = ?", (key,))
    any_value = all_of([of_key, Condition("value <> ''")])
    return _any_named(
        values,
        lambda named: _has_row(calls, "tags", all_of([of_key, _is_one_of("value", named)])),
        none=_has_row(calls, "tags", any_value, has="not "),
    )


def has_tag(calls: Calls, values: Sequence[str]) -> Condition:
    """Return the condition that calls have one of these tags without a key; "" stands for no tag at all."""
    is_plain = Condition("value = ''")
    return _any_named(
        values,
        lambda named: _has_row(calls, "tags", all_of([_is_one_of("name", named), is_plain])),
        none=Condition(f"{calls.prefix}tags is null"),
    )


def is_in(calls: Calls, interval: Interval) -> Condition:
    column = f"{calls.prefix}created_at"
    values = (_format_hour(interval.start), _format_hour(interval.end))
    return Condition(f"{column} >= ? and {column} < ?", values)


def _format_hour(instant: datetime) -> str:
    """Return the beginning of an hour as the shortest text that compares correctly with ``created_at``."""
    return instant.isoformat()[: 10 if instant.hour == 0 else 13]


def all_of(conditions: Iterable[Condition]) -> Condition:
    return _join(" and ", conditions, "true")


def _any_of(conditions: Iterable[Condition]) -> Condition:
    parts = list(conditions)
    joined = _join(" or ", parts, "false")
    return joined if len(parts) < 2 else Condition(f"({joined.sql})", joined.values)


def _join(word: str, conditions: Iterable[Condition], nothing: str) -> Condition:
    parts = list(conditions)
    if not parts:
        return Condition(nothing)
    values = tuple(value for part in parts for value in part.values)
    return Condition(word.join(part.sql for part in parts), values)


def _write_value(value: Value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
