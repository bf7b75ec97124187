"""Totals of the usage by other interfaces than messages.

Results of batches and chat completions are calls, and included in all totals of calls. Managed
sessions and dreams are not: they report their total usage, which belongs to the day on which they
were created. Totals are read from the rows themselves, so usage that retention has removed is
missing."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from store.database import list_columns
from store.traces.sums.sum_columns import find_bounds

type ProductName = Literal["batch", "chat_completions", "session", "dream"]

TITLES: dict[ProductName, tuple[str, str]] = {
    "batch": ("result of batches", "results of batches"),
    "chat_completions": ("chat completion", "chat completions"),
    "session": ("managed session", "managed sessions"),
    "dream": ("dream", "dreams"),
}
_OF_CALLS = (
    "select product, count(*), total(cost_cents), sum(cost_cents is null and usage_source <> 'none'), null"
    " from usage indexed by usage_product where product <> 'messages'"  # else it reads all of the period
    " and created_at >= ? and created_at < ? group by product"
)
# Those of a period. The session that a dream runs in has the same tokens again.
COUNTED_OBJECTS = (
    "upstream_objects where coalesce(created_at, read_at) >= ?"
    " and coalesce(created_at, read_at) < ? and object_id not in"
    " (select session_id from upstream_objects where session_id is not null)"
)
_OF_OBJECTS = (
    "select kind, count(*), total(cost_cents), sum(cost_cents is null), sum(list_cost_cents)"  # noqa: S608 - our own names
    f" from {COUNTED_OBJECTS} group by kind"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTotals:
    """The totals of a product.

    ``unpriced`` is the number of items without a known cost. ``list_cost_cents`` is the cost that the
    upstream states, None if it does not. ``is_of_calls``: the items are in totals of calls too."""

    product: ProductName
    count: int
    cost_cents: float
    unpriced: int
    list_cost_cents: float | None
    is_of_calls: bool

    @property
    def title(self) -> str:
        """Return the name of the product, in singular or plural by ``count``."""
        return name_product(self.product, self.count)


def name_product(product: ProductName, count: int) -> str:
    """Return the name of a product, in singular if ``count`` is 1, otherwise in plural."""
    return TITLES[product][count != 1]


def read_products(
    db: sqlite3.Connection, from_day: date | None, to_day: date | None
) -> tuple[ProductTotals, ...]:
    """Return the totals of a period, both days included. Raises sqlite3.Error."""
    return tuple(_read(db, from_day, to_day))


def _read(
    db: sqlite3.Connection, from_day: date | None, to_day: date | None
) -> Iterator[ProductTotals]:
    if not list_columns(db, "upstream_objects"):  # no newer recorder has opened it yet
        return
    period = find_bounds(from_day, to_day)
    for sql in (_OF_CALLS, _OF_OBJECTS):
        for product, count, cents, unpriced, list_cents in db.execute(sql, period):
            yield ProductTotals(
                product=product,
                count=count,
                cost_cents=cents,
                unpriced=unpriced,
                list_cost_cents=list_cents,
                is_of_calls=sql is _OF_CALLS,
            )
