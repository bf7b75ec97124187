"""The order of the rows of a context page, which the address names: ``?sort=bytes``."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from conversations.context import Row
from conversations.xray import Category

_KEYS: Mapping[str, Callable[[Row], Any]] = {
    "tokens": lambda row: -row.tokens,
    "bytes": lambda row: -row.size,
    "read": lambda row: -row.cached,
    "written": lambda row: -row.written,
    "uncached": lambda row: -row.parts["uncached"],
    "cost": lambda row: -(row.cents or Decimal(0)),
}
SORTS = (*_KEYS, "name")


def sort_rows(rows: Sequence[Row], sort: str, titles: Mapping[Category, str]) -> list[Row]:
    """Return the rows by this column, the largest first, or by name. They stay as they are where there is
    no such column."""
    if sort == "name":
        return sorted(rows, key=lambda row: (titles[row.category], row.name or ""))
    key = _KEYS.get(sort)
    return list(rows) if key is None else sorted(rows, key=key)
