"""Budgets: rows of ``budgets``, and the time zone and webhook of an organisation.

A budget is that of an endpoint, or of the whole organisation. Each has one at most, and besides one for each
user, project or tag that it is to be warned of. That of a deleted endpoint is kept for when its slug
is made again; until then it is in no list.
"""

import base64
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from metering.attribution import Part, PartKind, check_part
from metering.budget_periods import Period, list_zones
from metering.budget_shares import check_shares, pack_shares, unpack_shares
from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from store.control.audit import Activity, Details
from store.control.endpoints import ProxyEndpoint
from store.control.records import Id, Instant, Joined, Line, Shared, Table
from store.pagination import START, Position

type Action = Literal["warn", "refuse"]
type Format = Literal["plain", "slack", "teams"]

MAX_LIMIT_USD = 1e9
MAX_PARTS = 100  # of an organisation, over all its endpoints
_IS_LISTED = "proxy_endpoints.deleted_at is null"

SET = Activity("budget.set", "set the budget of")
DELETED = Activity("budget.delete", "deleted the budget of")
TIME_ZONE_SET = Activity("budget.time_zone", "set the time zone")
WEBHOOK_SET = Activity("budget.webhook_set", "set the webhook for budgets")
WEBHOOK_DELETED = Activity("budget.webhook_delete", "deleted the webhook for budgets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget. Without ``proxy_endpoint_id``, ``slug`` and ``name`` it is the organisation's;
    ``time_zone`` is the organisation's. ``warn_at`` are its ``shares`` as they are stored; ``of_kind`` and
    ``of_value`` are the part of the calls that it is about, None for all."""

    id: Id
    organization_id: Id
    proxy_endpoint_id: Id | None
    slug: Annotated[str | None, Joined("proxy_endpoints.slug")]
    name: Annotated[str | None, Joined("proxy_endpoints.name")]
    period: Period
    limit_usd: float
    action: Action
    warn_at: Line | None = None
    of_kind: PartKind | None = None
    of_value: Line | None = None
    time_zone: Annotated[str, Joined("organizations.time_zone")]
    created_at: Instant

    @property
    def subject_id(self) -> str:
        """Return the id of what the budget is for: an endpoint or an organisation."""
        return self.proxy_endpoint_id or self.organization_id

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the shares of the limit at which its use is reported."""
        return unpack_shares(self.warn_at)

    @property
    def of(self) -> Part | None:
        """Return the calls that it is about, None for all."""
        if self.of_kind is None or self.of_value is None:
            return None
        return Part(self.of_kind, self.of_value)


TABLE = Table(
    "budgets",
    Budget,
    "join organizations on organizations.id = budgets.organization_id"
    " left join proxy_endpoints on proxy_endpoints.id = budgets.proxy_endpoint_id",
    shared=Shared(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook. ``secret`` signs what is sent to it; ``format`` is that of messages about budgets."""

    organization_id: Id
    url: str
    secret: bytes = field(repr=False)
    created_at: Instant
    format: Format = "plain"


WEBHOOKS = Table("budget_webhooks", Webhook)


def format_secret(secret: bytes) -> str:
    """Return a secret as receivers are configured with it."""
    return f"whsec_{base64.b64encode(secret).decode()}"


def name_subject(slug: str | None, of: Part | None = None) -> Details:
    """Return the name of what a budget is for, as the activity log has it."""
    subject: Details = {"name": "the organisation"} if slug is None else {"slug": slug}
    return subject if of is None else {**subject, "of": str(of)}


def list_after(
    db: sqlite3.Connection, organization_id: str, position: Position = START, limit: int = -1
) -> Sequence[Budget]:
    """Return the budgets of an organisation after a position, newest first; without a limit all."""
    return TABLE.read(
        db,
        f"where {_IS_LISTED} and budgets.organization_id = ? and (budgets.created_at, budgets.id) < (?, ?)"
        " order by budgets.created_at desc, budgets.id desc limit ?",
        organization_id,
        position.created_at,
        position.id,
        limit,
    )


def list_all(db: sqlite3.Connection) -> Sequence[Budget]:
    """Return the budgets of all organisations, for the service itself."""
    return TABLE.read(db, f"where {_IS_LISTED} order by budgets.organization_id, budgets.id")


def find(
    db: sqlite3.Connection,
    organization_id: str,
    endpoint: ProxyEndpoint | None,
    of: Part | None = None,
) -> Budget | None:
    """Return the budget of an endpoint, or of the organisation, or None; of all calls or of a part."""
    return TABLE.find(
        db,
        f"where {_IS_LISTED} and budgets.organization_id = ? and proxy_endpoint_id is ?"
        " and of_kind is ? and of_value is ?",
        organization_id,
        None if endpoint is None else endpoint.id,
        None if of is None else of.kind,
        None if of is None else of.value,
    )


def get(
    db: sqlite3.Connection,
    organization_id: str,
    endpoint: ProxyEndpoint | None,
    of: Part | None = None,
) -> Budget:
    """Return a budget as ``find`` does. Raises NotFoundError."""
    budget = find(db, organization_id, endpoint, of)
    if budget is None:
        what = "the organisation" if endpoint is None else f"the endpoint {endpoint.slug!r}"
        which = "no budget" if of is None else f"no budget of the {of}"
        raise NotFoundError(f"{what} has {which}; `taximeter budgets list` shows those there are")
    return budget


def find_only_part(
    db: sqlite3.Connection, organization_id: str, endpoint: ProxyEndpoint | None
) -> Part | None:
    """Return the part that the only budget of an endpoint or of the organisation is about, else None."""
    found = TABLE.read(
        db,
        f"where {_IS_LISTED} and budgets.organization_id = ? and proxy_endpoint_id is ? limit 2",
        organization_id,
        None if endpoint is None else endpoint.id,
    )
    return found[0].of if len(found) == 1 else None


def parse_part(kind: PartKind, value: str) -> Part:
    """Return the part of the calls that a budget is about. Raises InvalidInputError."""
    try:
        return check_part(kind, value)
    except ValueError as error:
        raise InvalidInputError(str(error), "of") from error


def put(
    db: sqlite3.Connection,
    organization_id: str,
    endpoint: ProxyEndpoint | None,
    *,
    period: Period,
    limit_usd: float,
    action: Action,
    warn_at: Sequence[float] | None = None,
    of: Part | None = None,
) -> Budget:
    """Set a budget, in the place of the one that is there. Without ``warn_at`` it warns as all do.

    Raises InvalidInputError, LimitReachedError."""
    if not 0 < limit_usd <= MAX_LIMIT_USD:
        raise InvalidInputError(
            f"a limit is an amount of dollars above 0 and up to {MAX_LIMIT_USD:,.0f}", "limit_usd"
        )
    if of is not None:
        _check_part(db, organization_id, endpoint, action, of)
    row = {
        "id": clock.new_id(),
        "organization_id": organization_id,
        "proxy_endpoint_id": None if endpoint is None else endpoint.id,
        "period": period,
        "limit_usd": limit_usd,
        "action": action,
        "warn_at": None if warn_at is None else _pack_shares(warn_at),
        "of_kind": None if of is None else of.kind,
        "of_value": None if of is None else of.value,
        "created_at": clock.format_ms(clock.now()),
    }
    TABLE.insert(
        db,
        row,
        key="organization_id, coalesce(proxy_endpoint_id, ''), coalesce(of_kind, ''),"
        " coalesce(of_value, '')",
        kept=("id", "created_at"),
    )
    return get(db, organization_id, endpoint, of)


def _pack_shares(shares: Sequence[float]) -> str:
    try:
        return pack_shares(check_shares(shares))
    except ValueError as error:
        raise InvalidInputError(str(error), "warn_at") from error


def _check_part(
    db: sqlite3.Connection,
    organization_id: str,
    endpoint: ProxyEndpoint | None,
    action: Action,
    of: Part,
) -> None:
    if action == "refuse":
        raise InvalidInputError(
            f"a budget of a {of.kind} only warns, because clients name their {of.kind} themselves and"
            " nothing checks it: use the action warn, or a proxy endpoint of its own with a budget that"
            " refuses",
            "of",
        )
    (others,) = db.execute(
        "select count(*) from budgets where organization_id = ? and of_kind is not null",
        (organization_id,),
    ).fetchone()
    if others >= MAX_PARTS and find(db, organization_id, endpoint, of) is None:
        raise LimitReachedError(
            f"an organisation has at most {format_count(MAX_PARTS)} budgets of users, projects and"
            " tags; delete one"
        )


def delete(db: sqlite3.Connection, budget: Budget) -> None:
    TABLE.delete(db, "where id = ?", budget.id)


# -- the organisation's ----------------------------------------------------------------------------


def get_time_zone(db: sqlite3.Connection, organization_id: str) -> str:
    """Return the name of the time zone whose days the budgets of an organisation have."""
    (name,) = db.execute(
        "select time_zone from organizations where id = ?", (organization_id,)
    ).fetchone()
    return str(name)


def set_time_zone(db: sqlite3.Connection, organization_id: str, name: str) -> None:
    """Set the time zone. Raises InvalidInputError for a name that no time zone has."""
    if name not in list_zones():
        raise InvalidInputError(
            f"{name!r} is not a time zone: use a name such as Europe/Berlin or UTC", "time_zone"
        )
    db.execute("update organizations set time_zone = ? where id = ?", (name, organization_id))


def find_webhook(db: sqlite3.Connection, organization_id: str) -> Webhook | None:
    """Return the webhook of an organisation, or None."""
    return WEBHOOKS.find(db, "where organization_id = ?", organization_id)


def put_webhook(
    db: sqlite3.Connection, organization_id: str, url: str, secret: bytes, format: Format
) -> Webhook:
    """Set the webhook, in the place of the one that is there. The address has been checked."""
    webhook = Webhook(
        organization_id=organization_id,
        url=url,
        secret=secret,
        created_at=clock.format_ms(clock.now()),
        format=format,
    )
    WEBHOOKS.insert(db, webhook, key="organization_id")
    return webhook


def delete_webhook(db: sqlite3.Connection, organization_id: str) -> Webhook:
    """Delete the webhook and return it. Raises NotFoundError."""
    webhook = find_webhook(db, organization_id)
    if webhook is None:
        raise NotFoundError("the organisation has no webhook")
    WEBHOOKS.delete(db, "where organization_id = ?", organization_id)
    return webhook
