"""The rows of ``budget_deliveries`` and ``alert_deliveries``: the recipients of an alert.

They are made in the transaction of the alert."""

import sqlite3
from collections.abc import Sequence
from typing import Literal

from runtime import clock
from store.control import budgets, people

type Channel = Literal["mail", "webhook"]
type DeliveryTable = Literal["budget_deliveries", "alert_deliveries"]
type Target = tuple[Channel, str]


def list_owners(db: sqlite3.Connection, organization_id: str) -> list[Target]:
    """Return the owners of an organisation who have a mail address, as ("mail", address)."""
    return [
        ("mail", member.email)
        for member in people.list_members_of(db, organization_id)
        if member.role == "owner" and member.email is not None
    ]


def list_webhook(db: sqlite3.Connection, organization_id: str) -> list[Target]:
    """Return the webhook of an organisation as ("webhook", address), or an empty list."""
    webhook = budgets.find_webhook(db, organization_id)
    return [] if webhook is None else [("webhook", webhook.url)]


def add(
    db: sqlite3.Connection,
    table: DeliveryTable,
    alert_id: str,
    targets: Sequence[Target],
    due_at: str,
) -> None:
    """Add deliveries of an alert, one for each target, to be tried from ``due_at`` on."""
    db.executemany(
        f"insert into {table} (id, alert_id, channel, target, due_at) values (?, ?, ?, ?, ?)",  # noqa: S608
        [(clock.new_id(), alert_id, channel, target, due_at) for channel, target in targets],
    )
