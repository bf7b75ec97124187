"""The line items of each entry's cost, and updating the cost of stored entries."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import orjson

from metering import token_counts
from metering.billed_passes import Call
from metering.entry import CostItem, sum_estimates
from metering.token_counts import TokenCounts
from runtime import clock
from store.traces import backfill_progress
from store.traces.backfill_progress import HOURLY_SUMS
from store.traces.sessions import agent_sums, session_sums
from store.traces.sums.rollup import BookedCall, Tally

_PAGE = 500

# The columns of usage_cost after `usage_id` and `line`: the fields of a line item.
_COLUMNS = CostItem._fields
_MONEY = ("rate_usd", "multiplier", "cents")
_MONEY_PLACES = tuple(map(_COLUMNS.index, _MONEY))
_INSERT = (
    f"insert into usage_cost (usage_id, line, {', '.join(_COLUMNS)})"  # noqa: S608 - our own names
    f" values ({', '.join('?' * (2 + len(_COLUMNS)))})"
)
_BOOKED = (
    f"select {', '.join((*BookedCall._fields, *token_counts.NAMES))}, id from usage"  # noqa: S608 - our own names
    " where id in (select value from json_each(?))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCost:
    """A stored entry: what its cost depends on, and the cost that it has. ``broken_tokens`` were in the
    prompt cache and paid for again, None where the call broke no cache; ``broken_cents`` is what that cost
    more than reading them."""

    usage_id: int
    entry_id: str
    call: Call
    cost_cents: Decimal | None
    broken_tokens: int | None = None
    broken_cents: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """A stored entry, as far as the hourly sums depend on it."""

    call: BookedCall
    tokens: TokenCounts
    items: tuple[CostItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCost:
    """A new cost for a stored entry. ``output_tokens`` is an estimate that replaces the count of the
    entry, None where the count stays. ``broken_cents`` is that of its cache break, None where that stays."""

    usage_id: int
    cost_cents: Decimal | None
    cost_items: tuple[CostItem, ...]
    output_tokens: int | None = None
    broken_cents: Decimal | None = None


def write_items(
    connection: sqlite3.Connection, bills: Iterable[tuple[int, Sequence[CostItem]]]
) -> None:
    """Insert the line items of entries, which are given by row id."""
    connection.executemany(
        _INSERT,
        [
            (usage_id, line, *_row(item))
            for usage_id, items in bills
            for line, item in enumerate(items)
        ],
    )


def read_items(connection: sqlite3.Connection, usage_id: int) -> tuple[CostItem, ...]:
    """Return the line items of one entry, in order."""
    return tuple(read_all_items(connection, [usage_id]).get(usage_id, ()))


def iter_costs(connection: sqlite3.Connection, *, only_unpriced: bool) -> Iterator[StoredCost]:
    """Yield the stored cost of every entry, oldest first.

    They are read in pages, and no transaction stays open between two pages, so costs may be written
    while this goes on."""
    wanted = "cost_cents is null" if only_unpriced else "true"
    page = (
        "select id, entry_id, created_at, outcome, status_code, usage_source, model, service_tier,"  # noqa: S608 - our own text
        " speed, inference_geo, cost_cents, tokens, extra_cost_cents from usage"
        " left join cache_breaks as b on b.usage_id = id"
        f" where id > ? and {wanted} order by id limit ?"
    )
    last_id = 0
    while rows := connection.execute(page, (last_id, _PAGE)).fetchall():
        items = read_all_items(connection, [row[0] for row in rows])
        for (
            usage_id,
            entry_id,
            created_at,
            outcome,
            status,
            source,
            *names,
            cents,
            broken,
            extra,
        ) in rows:
            model, service_tier, speed, inference_geo = names
            yield StoredCost(
                usage_id=usage_id,
                entry_id=entry_id,
                call=Call(
                    created_at=clock.parse_instant(created_at),
                    outcome=outcome,
                    status_code=status,
                    usage_source=source,
                    model=model,
                    service_tier=service_tier,
                    speed=speed,
                    inference_geo=inference_geo,
                    items=tuple(items.get(usage_id, ())),
                ),
                cost_cents=from_real(cents),
                broken_tokens=broken,
                broken_cents=extra,
            )
        last_id = rows[-1][0]


def write_costs(connection: sqlite3.Connection, costs: Sequence[NewCost]) -> int:
    """Replace cost and items of these entries and carry the difference into the hourly sums.

    Wants the write lock. An entry that is gone is passed over; returns how many were not."""
    tally = Tally()
    as_before_id = backfill_progress.find_next(connection, HOURLY_SUMS) or 0
    written = 0
    for cost in costs:
        for old in read_booked(connection, [cost.usage_id]):
            new = _apply(cost, old)
            for each, sign in ((old, -1), (new, 1)):
                if cost.usage_id <= as_before_id:
                    tally.add_as_before(each.call, each.tokens, sign=sign)
                else:
                    tally.add(each.call, each.items, sign=sign)
            summed_in = [
                sums
                for sums in (session_sums, agent_sums)
                if sums.is_booked(connection, cost.usage_id)
            ]
            for sums in summed_in:
                sums.book(connection, [cost.usage_id], sign=-1)
            connection.execute(
                "update usage set cost_cents = ?, estimated_cents = ?, usage_source = ?,"
                " output_tokens = ? where id = ?",
                (
                    new.call.cost_cents,
                    to_real(sum_estimates(cost.cost_items)),
                    new.call.usage_source,
                    new.tokens.output_tokens,
                    cost.usage_id,
                ),
            )
            if cost.broken_cents is not None:
                connection.execute(
                    "update cache_breaks set extra_cost_cents = ? where usage_id = ?",
                    (to_real(cost.broken_cents), cost.usage_id),
                )
            for sums in summed_in:
                sums.book(connection, [cost.usage_id])
            connection.execute("delete from usage_cost where usage_id = ?", (cost.usage_id,))
            write_items(connection, [(cost.usage_id, cost.cost_items)])
            written += 1
    tally.write(connection)
    return written


def _apply(cost: NewCost, old: Booked) -> Booked:
    call = old.call._replace(cost_cents=to_real(cost.cost_cents))
    tokens = old.tokens
    if cost.output_tokens is not None:
        call = call._replace(usage_source="estimated")
        tokens = replace(tokens, output_tokens=cost.output_tokens)
    return Booked(call=call, tokens=tokens, items=cost.cost_items)


def read_booked(connection: sqlite3.Connection, ids: list[int]) -> list[Booked]:
    """Return what the hourly sums have of these entries, without those that are gone."""
    items = read_all_items(connection, ids)
    return [
        Booked(
            call=BookedCall._make(row[: len(BookedCall._fields)]),
            tokens=TokenCounts(*row[len(BookedCall._fields) : -1]),
            items=tuple(items.get(row[-1], ())),
        )
        for row in connection.execute(_BOOKED, (orjson.dumps(ids).decode(),))
    ]


def to_real(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def from_real(value: float | None) -> Decimal | None:
    """Return the shortest decimal with the value of this double, which is the one that was stored."""
    return None if value is None else Decimal(repr(value))


def _row(item: CostItem) -> list[Any]:
    values: list[Any] = list(item)
    for place in _MONEY_PLACES:
        if values[place] is not None:
            values[place] = float(values[place])
    return values


def read_all_items(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, list[CostItem]]:
    """Return the line items of these entries by row id, in order."""
    items: dict[int, list[CostItem]] = {}
    cursor = connection.execute(
        "select * from usage_cost"
        " where usage_id in (select value from json_each(?)) order by usage_id, line",
        (orjson.dumps(list(ids)).decode(),),
    )
    # A database that no newer recorder has opened yet lacks the newest columns.
    names = [description[0] for description in cursor.description]
    for values in cursor:
        row = dict(zip(names, values, strict=True))
        known: dict[str, Any] = {name: row[name] for name in _COLUMNS if name in row}
        known |= {name: from_real(known[name]) for name in _MONEY}
        known["estimated"] = bool(known.get("estimated"))
        items.setdefault(row["usage_id"], []).append(CostItem(**known))
    return items
