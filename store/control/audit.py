"""Writing of the activity log: rows of ``audit_log``, in the transaction of the change they record.

A row holds no secret: at most the prefix of a key, and the method and network address of a sign-in.
It has the e-mail address of the user who acted and no foreign key, because the log outlives users."""

import json
import os
import pwd
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from runtime import clock

type Details = Mapping[str, str | bool | None]


@dataclass(frozen=True, slots=True)
class Activity:
    """A kind of entry of the activity log.

    ``words`` are the verb between the user and the thing acted on. Each module of ``control`` declares
    its own kinds, and ``activity_log`` collects them."""

    name: str
    words: str


def write(
    db: sqlite3.Connection,
    organization_id: str,
    user_id: str | None,
    activity: Activity,
    subject_id: str,
    details: Details,
) -> None:
    """Write an entry for an action of a user, or of the operator if ``user_id`` is None."""
    if user_id is None:
        details = {**details, "operator": _account_name()}
    _insert(db, organization_id, user_id, activity, subject_id, details)


def write_for_service(
    db: sqlite3.Connection,
    organization_id: str,
    activity: Activity,
    subject_id: str,
    details: Details,
) -> None:
    """Write an entry for an action of the service itself."""
    _insert(db, organization_id, None, activity, subject_id, {**details, "service": True})


def _insert(
    db: sqlite3.Connection,
    organization_id: str,
    user_id: str | None,
    activity: Activity,
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
            activity.name,
            subject_id,
            json.dumps(dict(details), ensure_ascii=False),
        ),
    )


def _account_name() -> str:
    """Return the name of the account that this process runs as, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
