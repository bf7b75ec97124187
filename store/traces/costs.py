"""The line items of each entry's cost, and updating the cost of stored entries."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import orjson

from metering.entry import CostItem
from store.traces.rollup import Tally, is_unpriced

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCost:
    """The fields of a stored entry that pricing needs."""

    usage_id: int
    entry_id: str
    created_at: str
    model: str | None
    service_tier: str | None
    speed: str | None
    inference_geo: str | None
    cost_cents: Decimal | None
    cost_items: tuple[CostItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCost:
    usage_id: int
    cost_cents: Decimal | None
    cost_items: tuple[CostItem, ...]


def write_items(connection: sqlite3.Connection, usage_id: int, items: Sequence[CostItem]) -> None:
    connection.executemany(
        "insert into usage_cost (usage_id, line, pass_index, model, component, quantity,"
        " prompt_tokens, rate_usd, multiplier, price_version, cents)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                usage_id,
                line,
                item.pass_index,
                item.model,
                item.component,
                item.quantity,
                item.prompt_tokens,
                to_real(item.rate_usd),
                to_real(item.multiplier),
                item.price_version,
                to_real(item.cents),
            )
            for line, item in enumerate(items)
        ),
    )


def read_items(connection: sqlite3.Connection, usage_id: int) -> tuple[CostItem, ...]:
    """Return the line items of one entry, in order."""
    return tuple(_read_items(connection, [usage_id]).get(usage_id, ()))


def iter_costs(connection: sqlite3.Connection, *, only_unpriced: bool) -> Iterator[StoredCost]:
    """Yield the stored cost of every entry, oldest first.

    They are read in pages, and no transaction stays open between two pages, so costs may be written
    while this goes on."""
    wanted = "cost_cents is null and usage_source <> 'none'" if only_unpriced else "true"
    page = (
        "select id, entry_id, created_at, model, service_tier, speed, inference_geo, cost_cents"  # noqa: S608 - our own text
        f" from usage where id > ? and {wanted} order by id limit ?"
    )
    last_id = 0
    while rows := connection.execute(page, (last_id, _PAGE)).fetchall():
        items = _read_items(connection, [row[0] for row in rows])
        for usage_id, entry_id, created_at, model, tier, speed, geo, cost_cents in rows:
            yield StoredCost(
                usage_id=usage_id,
                entry_id=entry_id,
                created_at=created_at,
                model=model,
                service_tier=tier,
                speed=speed,
                inference_geo=geo,
                cost_cents=from_real(cost_cents),
                cost_items=tuple(items.get(usage_id, ())),
            )
        last_id = rows[-1][0]


def write_costs(connection: sqlite3.Connection, costs: Sequence[NewCost]) -> int:
    """Replace cost and items of these entries and carry the difference into the hourly sums.

    Wants the write lock. An entry that is gone is passed over; returns how many were not."""
    tally = Tally()
    written = 0
    for cost in costs:
        row = connection.execute(
            "select created_at, proxy_endpoint_id, slug, model, cost_cents, usage_source"
            " from usage where id = ?",
            (cost.usage_id,),
        ).fetchone()
        if row is None:
            continue
        created_at, proxy_endpoint_id, slug, model, old_cents, usage_source = row
        sums = tally.sums(created_at, proxy_endpoint_id, slug, model)
        sums.cost_cents += float(cost.cost_cents or 0) - (old_cents or 0)
        sums.unpriced += is_unpriced(cost.cost_cents, usage_source)
        sums.unpriced -= is_unpriced(old_cents, usage_source)
        connection.execute(
            "update usage set cost_cents = ? where id = ?",
            (to_real(cost.cost_cents), cost.usage_id),
        )
        connection.execute("delete from usage_cost where usage_id = ?", (cost.usage_id,))
        write_items(connection, cost.usage_id, cost.cost_items)
        written += 1
    tally.write(connection)
    return written


def to_real(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def from_real(value: float | None) -> Decimal | None:
    """Return the shortest decimal with the value of this double, which is the one that was stored."""
    return None if value is None else Decimal(repr(value))


def _read_items(connection: sqlite3.Connection, ids: list[int]) -> dict[int, list[CostItem]]:
    items: dict[int, list[CostItem]] = {}
    for (
        usage_id,
        pass_index,
        model,
        component,
        quantity,
        prompt,
        rate,
        multiplier,
        version,
        cents,
    ) in connection.execute(
        "select usage_id, pass_index, model, component, quantity, prompt_tokens, rate_usd,"
        " multiplier, price_version, cents from usage_cost"
        " where usage_id in (select value from json_each(?)) order by usage_id, line",
        (orjson.dumps(ids).decode(),),
    ):
        items.setdefault(usage_id, []).append(
            CostItem(
                pass_index=pass_index,
                model=model,
                component=component,
                quantity=quantity,
                prompt_tokens=prompt,
                rate_usd=from_real(rate),
                multiplier=from_real(multiplier),
                price_version=version,
                cents=from_real(cents),
            )
        )
    return items
