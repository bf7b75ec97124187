"""Totals of an organisation's usage, read from the hourly sums.

The sums stay when retention removes their entries, and there are few of them; so a report takes the
same time whether a day had a hundred calls or a million."""

import sqlite3
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from metering import token_counts
from metering.token_counts import ZERO, TokenCounts
from store.database import list_columns, open_readonly, snapshot
from store.traces.calls.credential_accounts import read_accounts
from store.traces.sums.named_groups import is_named, read_named
from store.traces.sums.products import ProductTotals, read_products
from store.traces.sums.requested_models import find_requested
from store.traces.sums.requested_sums import Part, read_requested, take_out
from store.traces.sums.sum_columns import Names, Sums, add_sums, find_bounds, list_sums, order_sums

type Grouping = Literal[
    "day",
    "model",
    "endpoint",
    "client",
    "credential",
    "billing",
    "user",
    "project",
    "tag",
    "session",
    "agent",
]

READ_TIMEOUT_S = 1.0
# The fields of a Group that each grouping of hourly sums sets, with the SQL for them. The other groupings
# have sums of their own, and a field of their own name.
_FIELDS: dict[str, dict[str, str]] = {
    "day": {"day": "substr(hour, 1, 10)"},
    "model": {"model": "model"},
    "endpoint": {"proxy_endpoint_id": "proxy_endpoint_id", "slug": "slug"},
    "client": {"client": "client"},
    "credential": {"credential_hmac": "credential_hmac"},
    "billing": {"billing": "billing"},
}
_NO_MODEL = ("",)
# What a request over the rate limit is counted by: nothing else of it is read.
_REJECTED_BY: tuple[Grouping, ...] = ("day", "endpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals of calls.

    ``unpriced`` calls have usage but no known price; ``cost_cents`` is the cost of the others.
    ``estimated_cents`` is the estimated part of it, and ``value_cents`` the part of calls that a
    subscription covers: they have a value and no bill. Calls that are ``maybe_billed`` have no usage
    and no cost, though upstream had the request. Tokens are those that are billed, including
    ``unpriced_tokens``; ``unbilled_tokens`` are not included. ``rejected`` requests were refused by our
    own limit and are not calls."""

    calls: int = 0
    errors: int = 0
    tokens: TokenCounts = ZERO
    cost_cents: float = 0.0
    estimated_cents: float = 0.0
    value_cents: float = 0.0
    unpriced: int = 0
    maybe_billed: int = 0
    unbilled_tokens: int = 0
    unpriced_tokens: int = 0
    rejected: int | None = 0

    @property
    def spend_cents(self) -> float:
        """Return the cost without calls that a subscription covers."""
        return self.cost_cents - self.value_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Totals of the calls in a group. Fields that are not grouped by are None, and so are unknown values.

    By model, calls whose response named none have the ``request_model`` instead. Rejected requests are
    counted only by day and by endpoint."""

    day: str | None = None
    model: str | None = None
    request_model: str | None = None
    proxy_endpoint_id: str | None = None
    slug: str | None = None
    client: str | None = None
    credential_hmac: str | None = None
    billing: str | None = None
    user: str | None = None
    project: str | None = None
    tag: str | None = None
    session: str | None = None
    agent: str | None = None
    totals: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Totals by day, newest first, or by another grouping, the most expensive first.

    ``products`` are those of other interfaces than messages."""

    by: Grouping
    from_day: date | None
    to_day: date | None
    totals: Totals
    groups: Sequence[Group]
    products: Sequence[ProductTotals] = ()


def read_usage(
    path: Path, by: Grouping, from_day: date | None = None, to_day: date | None = None
) -> UsageReport:
    """Return the totals of a period. Days are UTC and both are included.

    The report is empty if nothing has been recorded. Raises sqlite3.Error if the database cannot be
    read."""
    sums: dict[Names, Sums] = {}
    groups: dict[Names, Sums] = {}
    rejected: dict[Names, int] = {}
    products: Sequence[ProductTotals] = ()
    if path.exists():
        with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db, snapshot(db):
            sums, rejected = _read_period(db, "day" if is_named(by) else by, from_day, to_day)
            groups = sums
            if by == "credential":
                groups = {}
                accounts = read_accounts(db)
                add_sums(
                    groups,
                    (((accounts.get(name, name),), each) for (name,), each in sums.items()),
                )
            if is_named(by) and sums:
                groups = read_named(db, by, from_day, to_day, _sum_up(sums.values()))
            products = read_products(db, from_day, to_day)
    return UsageReport(
        by=by,
        from_day=from_day,
        to_day=to_day,
        totals=add_up(sums.values(), sum(rejected.values())),
        groups=make_groups(by, groups, rejected),
        products=products,
    )


def read_groups(db: sqlite3.Connection, by: Grouping, from_day: date, to_day: date) -> list[Group]:
    """Return the groups of the report of a period, from an open database. Raises sqlite3.Error."""
    with snapshot(db):
        return make_groups(by, *_read_period(db, by, from_day, to_day))


def _read_period(
    db: sqlite3.Connection, by: Grouping, from_day: date | None, to_day: date | None
) -> tuple[dict[Names, Sums], dict[Names, int]]:
    """Return the sums of a period and the numbers of rejected requests, both by the names of groups."""
    columns = list_columns(db, "usage_hourly")
    if not columns:  # the recorder creates the file a moment before the tables
        return {}, {}
    bounds = find_bounds(from_day, to_day)
    sums = read_sums(db, by, "usage_hourly where hour >= ? and hour < ?", bounds, columns)
    if by == "model" and _NO_MODEL in sums:
        _list_requested(db, sums, Part(start=bounds[0], end=bounds[1]))
    return sums, _read_rejected(db, by, bounds)


def _list_requested(db: sqlite3.Connection, sums: dict[Names, Sums], part: Part) -> None:
    """Move the calls without a model to the names of the models that their requests named."""
    found: dict[Names, Sums] = {
        (name,): order_sums(each) for (_, name), each in read_requested(db, part).items()
    }
    rest = take_out(sums.pop(_NO_MODEL), found.values())
    if rest is not None:
        sums[_NO_MODEL] = rest
    sums.update(found)


def read_sums(
    db: sqlite3.Connection,
    by: Grouping,
    source: str,
    parameters: Sequence[str],
    columns: Container[str],
) -> dict[Names, Sums]:
    """Return the sums of rows by the names of their groups.

    ``source`` is SQL for rows like those of ``usage_hourly``, which have ``columns``."""
    keys = list(_FIELDS[by].values())
    rows = db.execute(
        f"select {', '.join((*keys, *list_sums(columns)))} from {source}"  # noqa: S608 - our own names
        f" group by {', '.join(keys)}",
        parameters,
    )
    return {row[: len(keys)]: row[len(keys) :] for row in rows}


def _read_rejected(
    db: sqlite3.Connection, by: Grouping, bounds: tuple[str, str]
) -> dict[Names, int]:
    """Return the numbers of rejected requests by the names of groups, by endpoint if ``by`` has none."""
    keys = tuple(_FIELDS[by if by in _REJECTED_BY else "endpoint"].values())
    rows = db.execute(
        f"select {', '.join(keys)}, sum(count) from rejections_hourly"  # noqa: S608 - our own names
        f" where hour >= ? and hour < ? group by {', '.join(keys)}",
        bounds,
    )
    return {row[:-1]: row[-1] for row in rows}


def make_groups(
    by: Grouping, sums: Mapping[Names, Sums], rejected: Mapping[Names, int]
) -> list[Group]:
    """Return the groups: days newest first, others the most expensive first."""
    has_rejected = by in _REJECTED_BY
    names = sums.keys() | rejected.keys() if has_rejected else sums.keys()
    groups = [
        (
            key,
            Group(
                **_name(by, key),
                totals=make_totals(sums.get(key), rejected.get(key, 0) if has_rejected else None),
            ),
        )
        for key in names
    ]
    groups.sort(
        key=lambda each: (
            each[1].day or "",
            each[1].totals.cost_cents,
            each[1].totals.calls,
            each[0][::-1],  # the slug before the id
        ),
        reverse=True,
    )
    return [group for _, group in groups]


def _name(by: Grouping, key: Names) -> dict[str, str | None]:
    """Return the fields of ``Group`` that name a group."""
    if by == "model" and (requested := find_requested(key[0])) is not None:
        return {"request_model": requested}
    return {name: value or None for name, value in zip(_FIELDS.get(by, [by]), key, strict=True)}


def add_up(sums: Iterable[Sums], rejected: int | None) -> Totals:
    """Return the totals of all groups."""
    return make_totals(_sum_up(sums), rejected)


def _sum_up(sums: Iterable[Sums]) -> Sums:
    return tuple(map(sum, zip(*sums, strict=True)))


def make_totals(sums: Sums | None, rejected: int | None) -> Totals:
    """Return totals made of numbers in the order of ``list_sums``."""
    if not sums:
        return Totals(rejected=rejected)
    value_cents, calls, errors, unpriced, cost_cents, *others = sums
    maybe_billed, estimated_cents, unbilled_tokens, unpriced_tokens, *tokens = others
    return Totals(
        calls=int(calls),
        errors=int(errors),
        tokens=TokenCounts(**dict(zip(token_counts.NAMES, map(int, tokens), strict=True))),
        cost_cents=float(cost_cents),
        estimated_cents=float(estimated_cents),
        value_cents=float(value_cents),
        unpriced=int(unpriced),
        maybe_billed=int(maybe_billed),
        unbilled_tokens=int(unbilled_tokens),
        unpriced_tokens=int(unpriced_tokens),
        rejected=rejected,
    )
