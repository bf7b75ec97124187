"""Budgets: rows of ``budgets``, and the time zone and webhook of an organisation.

A budget is that of an endpoint, or of the whole organisation. Each has one at most. That of a deleted
endpoint is kept for when its slug is made again; until then it is in no list.
"""

import base64
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from metering.budget_periods import Period, list_zones
from runtime import clock
from runtime.errors import InvalidInputError, NotFoundError
from store.control.audit import Activity, Details
from store.control.endpoints import ProxyEndpoint
from store.pagination import START, Position

type Action = Literal["warn", "refuse"]

MAX_LIMIT_USD = 1e9
_SELECT = (
    "select b.id, b.organization_id, b.proxy_endpoint_id, e.slug, e.name, b.period, b.limit_usd, b.action,"
    " o.time_zone, b.created_at from budgets b join organizations o on o.id = b.organization_id"
    " left join proxy_endpoints e on e.id = b.proxy_endpoint_id where e.deleted_at is null"
)

SET = Activity("budget.set", "set the budget of")
DELETED = Activity("budget.delete", "deleted the budget of")
TIME_ZONE_SET = Activity("budget.time_zone", "set the time zone")
WEBHOOK_SET = Activity("budget.webhook_set", "set the webhook for budgets")
WEBHOOK_DELETED = Activity("budget.webhook_delete", "deleted the webhook for budgets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget. Without ``proxy_endpoint_id``, ``slug`` and ``name`` it is the organisation's;
    ``time_zone`` is the organisation's."""

    id: str
    organization_id: str
    proxy_endpoint_id: str | None
    slug: str | None
    name: str | None
    period: Period
    limit_usd: float
    action: Action
    time_zone: str
    created_at: str

    @property
    def subject_id(self) -> str:
        """Return the id of what the budget is for: an endpoint or an organisation."""
        return self.proxy_endpoint_id or self.organization_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook. ``secret`` signs what is sent to it."""

    organization_id: str
    url: str
    secret: bytes = field(repr=False)
    created_at: str


def format_secret(secret: bytes) -> str:
    """Return a secret as receivers are configured with it."""
    return f"whsec_{base64.b64encode(secret).decode()}"


def name_subject(slug: str | None) -> Details:
    """Return the name of what a budget is for, as the activity log has it."""
    return {"name": "the organisation"} if slug is None else {"slug": slug}


def list_after(
    db: sqlite3.Connection, organization_id: str, position: Position = START, limit: int = -1
) -> Sequence[Budget]:
    """Return the budgets of an organisation after a position, newest first; without a limit all."""
    rows = db.execute(
        f"{_SELECT} and b.organization_id = ? and (b.created_at, b.id) < (?, ?)"
        " order by b.created_at desc, b.id desc limit ?",
        (organization_id, position.created_at, position.id, limit),
    )
    return [_from_row(row) for row in rows]


def list_all(db: sqlite3.Connection) -> Sequence[Budget]:
    """Return the budgets of all organisations, for the service itself."""
    return [_from_row(row) for row in db.execute(f"{_SELECT} order by b.organization_id, b.id")]


def find(
    db: sqlite3.Connection, organization_id: str, endpoint: ProxyEndpoint | None
) -> Budget | None:
    """Return the budget of an endpoint, or of the organisation, or None."""
    row = db.execute(
        f"{_SELECT} and b.organization_id = ? and b.proxy_endpoint_id is ?",
        (organization_id, None if endpoint is None else endpoint.id),
    ).fetchone()
    return None if row is None else _from_row(row)


def get(db: sqlite3.Connection, organization_id: str, endpoint: ProxyEndpoint | None) -> Budget:
    """Return the budget of an endpoint, or of the organisation. Raises NotFoundError."""
    budget = find(db, organization_id, endpoint)
    if budget is None:
        what = "the organisation" if endpoint is None else f"the endpoint {endpoint.slug!r}"
        raise NotFoundError(f"{what} has no budget; `taximeter budgets list` shows those there are")
    return budget


def put(
    db: sqlite3.Connection,
    organization_id: str,
    endpoint: ProxyEndpoint | None,
    *,
    period: Period,
    limit_usd: float,
    action: Action,
) -> Budget:
    """Set a budget, in the place of the one that is there. Raises InvalidInputError."""
    if not 0 < limit_usd <= MAX_LIMIT_USD:
        raise InvalidInputError(
            f"a limit is an amount of dollars above 0 and up to {MAX_LIMIT_USD:,.0f}", "limit_usd"
        )
    db.execute(
        "insert into budgets"
        " (id, organization_id, proxy_endpoint_id, period, limit_usd, action, created_at)"
        " values (?, ?, ?, ?, ?, ?, ?) on conflict (organization_id, coalesce(proxy_endpoint_id, ''))"
        " do update set period = excluded.period, limit_usd = excluded.limit_usd,"
        " action = excluded.action",
        (
            clock.new_id(),
            organization_id,
            None if endpoint is None else endpoint.id,
            period,
            limit_usd,
            action,
            clock.format_ms(clock.now()),
        ),
    )
    return get(db, organization_id, endpoint)


def delete(db: sqlite3.Connection, budget: Budget) -> None:
    db.execute("delete from budgets where id = ?", (budget.id,))


# -- the organisation's ----------------------------------------------------------------------------


def get_time_zone(db: sqlite3.Connection, organization_id: str) -> str:
    """Return the name of the time zone whose days the budgets of an organisation have."""
    (name,) = db.execute(
        "select time_zone from organizations where id = ?", (organization_id,)
    ).fetchone()
    return str(name)


def set_time_zone(db: sqlite3.Connection, organization_id: str, name: str) -> None:
    """Set the time zone. Raises InvalidInputError for a name that is none."""
    if name not in list_zones():
        raise InvalidInputError(
            f"{name!r} is not a time zone: use a name such as Europe/Berlin or UTC", "time_zone"
        )
    db.execute("update organizations set time_zone = ? where id = ?", (name, organization_id))


def find_webhook(db: sqlite3.Connection, organization_id: str) -> Webhook | None:
    """Return the webhook of an organisation, or None."""
    row = db.execute(
        "select organization_id, url, secret, created_at from budget_webhooks"
        " where organization_id = ?",
        (organization_id,),
    ).fetchone()
    if row is None:
        return None
    return Webhook(organization_id=row[0], url=row[1], secret=row[2], created_at=row[3])


def put_webhook(db: sqlite3.Connection, organization_id: str, url: str, secret: bytes) -> Webhook:
    """Set the webhook, in the place of the one that is there. The address has been checked."""
    created_at = clock.format_ms(clock.now())
    db.execute(
        "insert or replace into budget_webhooks (organization_id, url, secret, created_at)"
        " values (?, ?, ?, ?)",
        (organization_id, url, secret, created_at),
    )
    return Webhook(organization_id=organization_id, url=url, secret=secret, created_at=created_at)


def delete_webhook(db: sqlite3.Connection, organization_id: str) -> Webhook:
    """Delete the webhook and return it. Raises NotFoundError."""
    webhook = find_webhook(db, organization_id)
    if webhook is None:
        raise NotFoundError("the organisation has no webhook")
    db.execute("delete from budget_webhooks where organization_id = ?", (organization_id,))
    return webhook


def _from_row(row: tuple[str, str, str, str, str, Period, float, Action, str, str]) -> Budget:
    id_, organization_id, endpoint_id, slug, name, period, limit_usd, action, zone, created_at = row
    return Budget(
        id=id_,
        organization_id=organization_id,
        proxy_endpoint_id=endpoint_id,
        slug=slug,
        name=name,
        period=period,
        limit_usd=limit_usd,
        action=action,
        time_zone=zone,
        created_at=created_at,
    )
