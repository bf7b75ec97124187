"""The hourly sums, updated in the transaction that changes the rows they sum.

A batch is added up here first, so that a hundred calls of one hour and model are one upsert.
"""

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from metering.billed_passes import FIRST_FAILURE_STATUS, UNBILLED_OUTCOMES, may_be_billed
from metering.entry import Outcome, UsageLogEntry, UsageSource
from metering.token_counts import ZERO, TokenCounts, list_flat_fields

# A client that disconnects (a person pressing Esc) is not an error.
NO_ERROR: tuple[Outcome, ...] = ("complete", "client_disconnected")
# SQL for ``may_be_billed`` over the columns of ``usage``.
MAY_BE_BILLED = (
    f"(usage_source = 'none' and outcome not in {UNBILLED_OUTCOMES}"
    f" and coalesce(status_code, 0) < {FIRST_FAILURE_STATUS})"
)


class HourKey(NamedTuple):
    hour: str
    proxy_endpoint_id: str
    slug: str
    model: str


@dataclass(slots=True, kw_only=True)
class HourSums:
    """The columns of ``usage_hourly``, as amounts to add to them."""

    entries: int = 0
    errors: int = 0
    unpriced: int = 0
    maybe_billed: int = 0
    timed: int = 0
    tokens: TokenCounts = ZERO
    cost_cents: float = 0.0
    estimated_cents: float = 0.0
    duration_ms: float = 0.0


_KEYS, _SUMS = HourKey._fields, list_flat_fields(HourSums)
_read_sums = attrgetter(*_SUMS.values())
_UPSERT = (
    f"insert into usage_hourly ({', '.join((*_KEYS, *_SUMS))})"  # noqa: S608 - our own names
    f" values ({', '.join('?' * len((*_KEYS, *_SUMS)))})"
    f" on conflict ({', '.join(_KEYS)}) do update set "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
)


class Tally:
    """The amounts that one transaction adds to the hourly sums."""

    def __init__(self) -> None:
        self._sums = defaultdict[HourKey, HourSums](HourSums)

    def add(self, entry: UsageLogEntry) -> None:
        sums = self.sums(entry.created_at, entry.proxy_endpoint_id, entry.slug, entry.model)
        sums.entries += 1
        sums.errors += entry.outcome not in NO_ERROR
        sums.unpriced += is_unpriced(entry.cost_cents, entry.usage_source)
        sums.maybe_billed += may_be_billed(entry.outcome, entry.status_code, entry.usage_source)
        sums.timed += entry.duration_ms is not None
        sums.tokens += entry.tokens
        sums.cost_cents += float(entry.cost_cents or 0)
        sums.estimated_cents += float(entry.estimated_cents or 0)
        sums.duration_ms += entry.duration_ms or 0

    def sums(
        self, created_at: str, proxy_endpoint_id: str, slug: str, model: str | None
    ) -> HourSums:
        """Return the sums that an entry with these fields is counted in."""
        key = HourKey(created_at[:13], proxy_endpoint_id, slug, model or "")
        return self._sums[key]

    def write(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            _UPSERT,
            ((*key, *_read_sums(sums)) for key, sums in self._sums.items()),
        )


def is_unpriced(cost_cents: object | None, usage_source: UsageSource) -> bool:
    """Return whether an entry has usage and no known price. A call without usage has nothing to
    price."""
    return cost_cents is None and usage_source != "none"
