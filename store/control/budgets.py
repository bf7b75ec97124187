"""Budgets: rows of ``budgets``, and the time zone and webhook of an organisation.

A budget belongs to an endpoint or to the whole organisation. Each of these has at most one budget
for all calls, and besides one for each user, project or tag. The budget of a deleted endpoint is
kept, unlisted, until an endpoint with the same slug is created."""

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
    """A budget of an endpoint, or of the organisation if ``proxy_endpoint_id`` is None.

    ``time_zone`` is the organisation's. ``warn_at`` has the ``shares`` in stored form. ``of_kind`` and
    ``of_value`` name the user, project or tag whose calls it counts, None for all calls."""

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
        """Return the id of the budget's endpoint, or of its organisation."""
        return self.proxy_endpoint_id or self.organization_id

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the shares of the limit (0 to 1) at which alerts are made."""
        return unpack_shares(self.warn_at)

    @property
    def of(self) -> Part | None:
        """Return the user, project or tag whose calls the budget counts, None for all calls."""
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
    """A webhook. ``secret`` is the key that signs its messages; ``format`` is the format of messages about
    budgets."""

    organization_id: Id
    url: str
    secret: bytes = field(repr=False)
    created_at: Instant
    format: Format = "plain"


WEBHOOKS = Table("budget_webhooks", Webhook)


def format_secret(secret: bytes) -> str:
    """Return a webhook's secret as text, in the form that receivers are configured with."""
    return f"whsec_{base64.b64encode(secret).decode()}"


def name_subject(slug: str | None, of: Part | None = None) -> Details:
    """Return the details of a budget for the activity log: its slug or "the organisation", and ``of``."""
    subject: Details = {"name": "the organisation"} if slug is None else {"slug": slug}
    return subject if of is None else {**subject, "of": str(of)}


def list_after(
    db: sqlite3.Connection, organization_id: str, position: Position = START, limit: int = -1
) -> Sequence[Budget]:
    """Return the budgets of an organisation after a position, newest first, up to ``limit`` (all if -1)."""
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
    """Return the budget of ``endpoint`` (None: the organisation's) for the calls ``of`` a part, or None."""
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
    """Return the same budget as ``find``. Raises NotFoundError if there is none."""
    budget = find(db, organization_id, endpoint, of)
    if budget is None:
        what = "the organisation" if endpoint is None else f"the endpoint {endpoint.slug!r}"
        which = "no budget" if of is None else f"no budget of the {of}"
        raise NotFoundError(f"{what} has {which}; `taximeter budgets list` shows those there are")
    return budget


def find_only_part(
    db: sqlite3.Connection, organization_id: str, endpoint: ProxyEndpoint | None
) -> Part | None:
    """Return the user, project or tag of the only budget of ``endpoint``, otherwise None."""
    found = TABLE.read(
        db,
        f"where {_IS_LISTED} and budgets.organization_id = ? and proxy_endpoint_id is ? limit 2",
        organization_id,
        None if endpoint is None else endpoint.id,
    )
    return found[0].of if len(found) == 1 else None


def parse_part(kind: PartKind, value: str) -> Part:
    """Return the user, project or tag that a budget is for. Raises InvalidInputError."""
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
    """Create a budget or replace the present one. Without ``warn_at`` it has the default shares.

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
    """Return the name of the time zone in which an organisation's budget periods begin and end."""
    (name,) = db.execute(
        "select time_zone from organizations where id = ?", (organization_id,)
    ).fetchone()
    return str(name)


def set_time_zone(db: sqlite3.Connection, organization_id: str, name: str) -> None:
    """Set the time zone of budget periods. Raises InvalidInputError for an unknown name."""
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
    """Set the webhook, in place of an earlier one. The caller has checked the address."""
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
