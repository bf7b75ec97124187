"""The hourly sums, updated in the transaction that changes the rows they sum.

Tokens and cents are those of the line items: each pass of a call is booked to the model that ran
it. Tokens that are not billed are counted apart, and so are those without a known price, so that
tokens x rate is the cost of every other row. The call itself is counted once, with its own model.

The number of rows of an hour is bounded, whatever clients send. Clients are named without their
versions, and the first ``MAX_CLIENTS`` of them and ``MAX_CREDENTIALS`` in the hour have rows of
their own. The rest is booked to ``OTHER``. A name that has a row in an hour keeps it, so a booked
call can be subtracted later: when a cost changes, the old values are subtracted and the call is
booked anew.

A batch is added up here first, so that a hundred calls of one hour and model are one upsert.
``usage_daily`` has the same sums of each day, for reports about months."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, Self

from metering import token_counts
from metering.billed_passes import may_be_billed
from metering.components import CACHE_WRITE_1H, TOKEN_CLASSES, WEB_SEARCH
from metering.entry import NO_ERROR, CostItem, Outcome, UsageLogEntry, UsageSource

MAX_CLIENTS, MAX_CREDENTIALS = 20, 100
UNKNOWN, OTHER = "", "(other)"
# A call of a subscription has a value and no bill, unless paid extra usage covers it. So has one that a
# customer pays.
SUBSCRIPTION, OVERAGE, CUSTOMER = "subscription", "overage", "customer"
IMPORTED = "imported"  # from transcripts, which do not say who paid
PAID_BY_OTHERS = (SUBSCRIPTION, CUSTOMER, IMPORTED)
_VERSION = re.compile(r"[/ ]v?[0-9].*", re.ASCII | re.DOTALL)


class HourKey(NamedTuple):
    """The columns that identify a row of ``usage_hourly``. Unknown values are ``UNKNOWN``."""

    hour: str
    proxy_endpoint_id: str
    slug: str
    model: str
    client: str = UNKNOWN
    credential_hmac: str = UNKNOWN
    billing: str = UNKNOWN

    @property
    def day(self) -> str:
        return self.hour[:10]


# The other columns of ``usage_hourly``, which are added to.
SUMS = (
    "entries",
    "errors",
    "unpriced",
    "maybe_billed",
    "timed",
    *token_counts.NAMES,
    "cache_write_1h_tokens",
    "web_search_requests",
    "unbilled_tokens",
    "unpriced_tokens",
    "cost_cents",
    "estimated_cents",
    "duration_ms",
)
type HourSums = dict[str, float]  # an amount to add to each of them, in this order


class BookedCall(NamedTuple):
    """The columns of an entry that, with its line items, decide how it is booked."""

    created_at: str
    proxy_endpoint_id: str
    slug: str
    model: str | None
    client: str | None
    credential_hmac: str | None
    billing: str | None
    overage: int | None
    outcome: Outcome
    status_code: int | None
    usage_source: UsageSource
    duration_ms: float | None
    cost_cents: Decimal | float | None

    @classmethod
    def of(cls, entry: UsageLogEntry) -> Self:
        """Return these columns of an entry."""
        return cls._make(_read_call(entry))


_read_call = attrgetter(*BookedCall._fields)
_KEYS = HourKey._fields
DAY_KEYS = ("day", *_KEYS[1:])
_NOTHING: HourSums = dict.fromkeys(SUMS, 0)


def write_upsert(table: str, keys: tuple[str, ...], sums: tuple[str, ...] = SUMS) -> str:
    """Return SQL that adds sums to the row with these keys, or inserts it."""
    return (
        f"insert into {table} ({', '.join((*keys, *sums))})"  # noqa: S608 - our own names
        f" values ({', '.join('?' * len((*keys, *sums)))}) {write_adding(keys, sums)}"
    )


def write_adding(keys: Iterable[str], sums: Iterable[str]) -> str:
    """Return the end of an SQL insert that adds sums to a row with these keys, if there is one."""
    added = ", ".join(f"{name} = {name} + excluded.{name}" for name in sums)
    return f"on conflict ({', '.join(keys)}) do update set {added}"


_UPSERT_HOUR = write_upsert("usage_hourly", _KEYS)
_UPSERT_DAY = write_upsert("usage_daily", DAY_KEYS)


class Tally:
    """The amounts that one transaction adds to the hourly sums."""

    def __init__(self) -> None:
        self._sums = defaultdict[HourKey, HourSums](_NOTHING.copy)

    def add(self, call: BookedCall, items: Iterable[CostItem], *, sign: int = 1) -> HourKey:
        """Book a call with its line items or, with ``sign`` -1, subtract it. Return the key of the call
        itself."""
        key = make_key(call)
        own = self._sums[key]
        _add_call(own, call, sign)
        if may_be_billed(call.outcome, call.status_code, call.usage_source):
            own["maybe_billed"] += sign
        for item in items:
            model = item.model or UNKNOWN
            sums = own if model == key.model else self._sums[key._replace(model=model)]
            _add_item(sums, item, sign)
        return key

    def write(self, connection: sqlite3.Connection) -> "Names":
        """Add the booked amounts to the tables, and return the names with rows of their own.

        The caller holds the write lock."""
        names = Names(connection)
        booked = [(names.bound(key), sums) for key, sums in self._sums.items()]
        connection.executemany(_UPSERT_HOUR, [(*key, *sums.values()) for key, sums in booked])
        connection.executemany(
            _UPSERT_DAY, [(key.day, *key[1:], *sums.values()) for key, sums in booked]
        )
        return names


class Names:
    """The clients and credentials that have rows of their own in an hour."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._hours: dict[str, tuple[set[str], set[str]]] = {}

    def bound(self, key: HourKey) -> HourKey:
        """Return the key of the row to which ``key`` is booked."""
        clients, credentials = self._hours.get(key.hour) or self._read(key.hour)
        return key._replace(
            client=admit(key.client, clients, MAX_CLIENTS),
            credential_hmac=admit(key.credential_hmac, credentials, MAX_CREDENTIALS),
        )

    def _read(self, hour: str) -> tuple[set[str], set[str]]:
        rows = self._connection.execute(
            "select distinct client, credential_hmac from usage_hourly where hour = ?", (hour,)
        ).fetchall()
        names = ({client for client, _ in rows}, {credential for _, credential in rows})
        for each in names:
            each.difference_update((UNKNOWN, OTHER))
        self._hours[hour] = names
        return names


def admit(name: str, known: set[str], limit: int) -> str:
    """Return ``name``, which is added to ``known``, or ``OTHER`` if ``known`` has reached ``limit``."""
    if name in (UNKNOWN, OTHER) or name in known:
        return name
    if len(known) >= limit:
        return OTHER
    known.add(name)
    return name


def make_key(call: BookedCall) -> HourKey:
    return HourKey(
        call.created_at[:13],
        call.proxy_endpoint_id,
        call.slug,
        call.model or UNKNOWN,
        find_product(call.client),
        call.credential_hmac or UNKNOWN,
        OVERAGE if call.billing == SUBSCRIPTION and call.overage else call.billing or UNKNOWN,
    )


@lru_cache(maxsize=1_000)
def find_product(client: str | None) -> str:
    """Return the product of a client without its version: ``claude-cli`` for ``claude-cli/2.1``."""
    return _VERSION.sub("", client or UNKNOWN)


def _add_call(sums: HourSums, call: BookedCall, sign: int) -> None:
    sums["entries"] += sign
    if call.outcome not in NO_ERROR:
        sums["errors"] += sign
    if is_unpriced(call.cost_cents, call.usage_source):
        sums["unpriced"] += sign
    if call.duration_ms is not None:
        sums["timed"] += sign
        sums["duration_ms"] += sign * call.duration_ms


def _add_item(sums: HourSums, item: CostItem, sign: int) -> None:
    quantity = sign * item.quantity
    component, cents = item.component, item.cents
    counted_in = TOKEN_CLASSES.get(component)
    if item.unbilled_reason is not None:
        sums["unbilled_tokens"] += quantity if counted_in else 0
        return
    if counted_in is not None:
        sums[counted_in] += quantity
        if cents is None:
            sums["unpriced_tokens"] += quantity
    if component == CACHE_WRITE_1H:
        sums["cache_write_1h_tokens"] += quantity
    elif component == WEB_SEARCH.name:
        sums["web_search_requests"] += quantity
    if cents is not None:
        amount = sign * float(cents)
        sums["cost_cents"] += amount
        if item.estimated:
            sums["estimated_cents"] += amount


def is_unpriced(cost_cents: object | None, usage_source: UsageSource) -> bool:
    """Return whether an entry has usage but no cost. A call without usage needs no price."""
    return cost_cents is None and usage_source != "none"
