"""The activity log: rows of ``audit_log``, written in the transaction of the change they record.

A row holds no secret: at most the prefix of a key, and the method and network address of a sign-in.
It has the e-mail address of the user who acted and no foreign key, because the log outlives users.
"""

import json
import os
import pwd
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runtime import clock

type Action = Literal[
    "endpoint.create",
    "endpoint.update",
    "endpoint.delete",
    "key.create",
    "key.delete",
    "member.invite",
    "member.join",
    "member.remove",
    "invitation.delete",
    "invitation.decline",
    "budget.set",
    "budget.delete",
    "budget.time_zone",
    "budget.webhook_set",
    "budget.webhook_delete",
    "budget.warning",
    "budget.reached",
    "budget.not_delivered",
    "retention.change",
    "retention.run",
    "erase.order",
    "erase.copy",
    "erase.end",
    "user.create",
    "user.delete",
    "user.link",
    "user.sign_in",
]
# What each action is called for people, between who did it and what it was done to.
ACTIVITIES: Mapping[str, str] = {
    "endpoint.create": "created the endpoint",
    "endpoint.update": "changed the endpoint",
    "endpoint.delete": "deleted the endpoint",
    "key.create": "created the key",
    "key.delete": "deleted the key",
    "member.invite": "invited",
    "member.join": "joined",
    "member.remove": "removed",
    "invitation.delete": "withdrew the invitation of",
    "invitation.decline": "declined the invitation of",
    "budget.set": "set the budget of",
    "budget.delete": "deleted the budget of",
    "budget.time_zone": "set the time zone",
    "budget.webhook_set": "set the webhook for budgets",
    "budget.webhook_delete": "deleted the webhook for budgets",
    "budget.warning": "reported 80% of the budget of",
    "budget.reached": "reported 100% of the budget of",
    "budget.not_delivered": "gave up reporting on the budget of",
    "retention.change": "changed the retention of",
    "retention.run": "applied the retention rules:",
    "erase.order": "ordered to erase calls by",
    "erase.copy": "erased in one copy by",
    "erase.end": "finished erasing by",
    "user.create": "signed up",
    "user.delete": "deleted the user",
    "user.link": "made a sign-in link for",
    "user.sign_in": "signed in",
}
type Details = Mapping[str, str | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An entry of the activity log.

    ``user_id`` is None for the operator at the command line; ``details`` then has their account on
    that machine as ``operator``. It is None too for what the service did by itself, which ``details`` says
    by ``service``."""

    at: str
    organization_id: str
    user_id: str | None
    email: str | None
    action: str
    subject_id: str
    details: dict[str, str | bool | None]

    @property
    def activity(self) -> str:
        """Return the action in words; of an action that a newer version wrote, its name."""
        return ACTIVITIES.get(self.action, self.action)


def write(
    db: sqlite3.Connection,
    organization_id: str,
    user_id: str | None,
    action: Action,
    subject_id: str,
    details: Details,
) -> None:
    """Write an entry for a user, or for the operator where ``user_id`` is None."""
    if user_id is None:
        details = {**details, "operator": _account_name()}
    _insert(db, organization_id, user_id, action, subject_id, details)


def write_for_service(
    db: sqlite3.Connection, organization_id: str, action: Action, subject_id: str, details: Details
) -> None:
    """Write an entry of something that the service did by itself."""
    _insert(db, organization_id, None, action, subject_id, {**details, "service": True})


def _insert(
    db: sqlite3.Connection,
    organization_id: str,
    user_id: str | None,
    action: Action,
    subject_id: str,
    details: Details,
) -> None:
    db.execute(
        "insert into audit_log (at, organization_id, user_id, email, action, subject_id, details)"
        " values (?, ?, ?, (select email from users where id = ?), ?, ?, ?)",
        (
            clock.format_ms(clock.now()),
            organization_id,
            user_id,
            user_id,
            action,
            subject_id,
            json.dumps(dict(details), ensure_ascii=False),
        ),
    )


def _account_name() -> str:
    """Return the account that this process runs as; by its number where it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def read(db: sqlite3.Connection, organization_id: str, limit: int = 100) -> Sequence[AuditEntry]:
    """Return an organisation's activity log, newest first."""
    rows = db.execute(
        "select at, organization_id, user_id, email, action, subject_id, details from audit_log"
        " where organization_id = ? order by id desc limit ?",
        (organization_id, limit),
    )
    return [
        AuditEntry(
            at=row[0],
            organization_id=row[1],
            user_id=row[2],
            email=row[3],
            action=row[4],
            subject_id=row[5],
            details=json.loads(row[6]),
        )
        for row in rows
    ]
