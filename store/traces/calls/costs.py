"""The line items of each entry's cost, and updates of the cost of stored entries."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from metering.billed_passes import Call
from metering.entry import CostItem, sum_estimates
from runtime import clock
from store.database import bind_list
from store.traces.sessions import agent_sums, session_sums
from store.traces.sums import tag_sums
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
_BOOKED = f"select {', '.join(BookedCall._fields)} from usage where id = ?"  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCost:
    """A stored entry with the facts that its cost depends on, and its present cost.

    ``broken_tokens`` is the number of tokens that were in the prompt cache and paid for again, None if
    the call broke no cache; ``broken_cents`` is their cost above that of reading them."""

    usage_id: int
    entry_id: str
    call: Call
    cost_cents: Decimal | None
    broken_tokens: int | None = None
    broken_cents: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCost:
    """A new cost for a stored entry. ``broken_cents`` is that of its cache break, None: unchanged."""

    usage_id: int
    cost_cents: Decimal | None
    cost_items: tuple[CostItem, ...]
    broken_cents: Decimal | None = None


def write_items(
    connection: sqlite3.Connection, bills: Iterable[tuple[int, Sequence[CostItem]]]
) -> None:
    """Insert the line items of entries, given by row id."""
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
    """Yield the stored cost of every entry, or of those without a cost, oldest first.

    Entries are read in pages without a transaction between two pages, so costs may be written
    meanwhile."""
    wanted = "cost_cents is null" if only_unpriced else "true"
    page = (
        "select id, entry_id, created_at, outcome, status_code, usage_source, model, service_tier,"  # noqa: S608 - our own text
        " speed, inference_geo, product, upstream, cost_cents, tokens, extra_cost_cents from usage"
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
            model, service_tier, speed, inference_geo, product, upstream = names
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
                    product=product,
                    upstream=upstream,
                ),
                cost_cents=from_real(cents),
                broken_tokens=broken,
                broken_cents=extra,
            )
        last_id = rows[-1][0]


def write_costs(connection: sqlite3.Connection, costs: Sequence[NewCost]) -> int:
    """Replace cost and line items of entries, and add the difference to the hourly sums.

    Entries that are gone are skipped. Returns the number of the others. The caller holds the write
    lock."""
    tally = Tally()
    written = 0
    for cost in costs:
        row = connection.execute(_BOOKED, (cost.usage_id,)).fetchone()
        if row is None:
            continue
        old = BookedCall._make(row)
        cents = to_real(cost.cost_cents)
        tally.add(old, read_items(connection, cost.usage_id), sign=-1)
        tally.add(old._replace(cost_cents=cents), cost.cost_items)
        for sums in (session_sums, agent_sums, tag_sums):
            sums.book(connection, [cost.usage_id], sign=-1)
        connection.execute(
            "update usage set cost_cents = ?, estimated_cents = ? where id = ?",
            (cents, to_real(sum_estimates(cost.cost_items)), cost.usage_id),
        )
        if cost.broken_cents is not None:
            connection.execute(
                "update cache_breaks set extra_cost_cents = ? where usage_id = ?",
                (to_real(cost.broken_cents), cost.usage_id),
            )
        for sums in (session_sums, agent_sums):
            sums.book(connection, [cost.usage_id])
        connection.execute("delete from usage_cost where usage_id = ?", (cost.usage_id,))
        write_items(connection, [(cost.usage_id, cost.cost_items)])
        tag_sums.book(connection, [cost.usage_id])  # these are sums of line items
        written += 1
    tally.write(connection)
    return written


def to_real(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def from_real(value: float | None) -> Decimal | None:
    """Return the shortest decimal with the value of this double, which is the decimal that was stored."""
    return None if value is None else Decimal(repr(value))


def _row(item: CostItem) -> list[Any]:
    values: list[Any] = list(item)
    for place in _MONEY_PLACES:
        if values[place] is not None:
            values[place] = float(values[place])
    return values


def read_all_items(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, list[CostItem]]:
    """Return the line items of entries by row id, in order."""
    items: dict[int, list[CostItem]] = {}
    cursor = connection.execute(
        "select * from usage_cost"
        " where usage_id in (select value from json_each(?)) order by usage_id, line",
        (bind_list(ids),),
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
