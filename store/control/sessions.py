"""Sessions: rows of ``sessions``.

Expiry is checked on use, so that an old token does not outlive a time when the service was off.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime import clock
from store.control.audit import Activity
from store.control.people import Caller
from store.control.tokens import hash_token, make_token

SESSION_IDLE_LIFE = timedelta(days=7)
SESSION_LIFE = timedelta(days=30)

OPENED = Activity("user.sign_in", "signed in")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor(Caller):
    """The user of a session. ``email`` is None for the local user of a first start."""

    email: str | None
    organization_name: str


def create(
    db: sqlite3.Connection, user_id: str, now: datetime, organization_id: str | None = None
) -> str:
    """Create a session and return its token.

    Its organisation is ``organization_id``, or the one that the user joined first."""
    token = make_token()
    at = clock.format_ms(now)
    db.execute("delete from sessions where created_at < ? or seen_at < ?", _oldest(now))
    db.execute(
        "insert into sessions (token_sha256, user_id, organization_id, created_at, seen_at)"
        " values (?, ?, ?, ?, ?)",
        (hash_token(token), user_id, organization_id, at, at),
    )
    return token


def find_visitor(db: sqlite3.Connection, token: str, now: datetime) -> tuple[Visitor | None, str]:
    """Return the user of a valid session, or None, and the instant of its last use."""
    row = db.execute(
        "select s.seen_at, u.id, u.email, o.id, o.name, o.time_zone, m.role from sessions s"
        " join users u on u.id = s.user_id join memberships m on m.user_id = u.id"
        " join organizations o on o.id = m.organization_id"
        " where s.token_sha256 = ? and s.created_at >= ? and s.seen_at >= ?"
        " and coalesce(s.organization_id, o.id) = o.id"
        " order by m.created_at, o.id limit 1",
        (hash_token(token), *_oldest(now)),
    ).fetchone()
    if row is None:
        return None, ""
    seen_at, user_id, email, organization_id, organization_name, time_zone, role = row
    visitor = Visitor(
        user_id=user_id,
        email=email,
        organization_id=organization_id,
        organization_name=organization_name,
        role=role,
        time_zone=time_zone,
    )
    return visitor, seen_at


def switch(db: sqlite3.Connection, token: str, organization_id: str) -> None:
    """Switch a session to another organisation."""
    db.execute(
        "update sessions set organization_id = ? where token_sha256 = ?",
        (organization_id, hash_token(token)),
    )


def note_use(db: sqlite3.Connection, token: str, now: datetime) -> None:
    db.execute(
        "update sessions set seen_at = ? where token_sha256 = ?",
        (clock.format_ms(now), hash_token(token)),
    )


def delete(db: sqlite3.Connection, token: str) -> None:
    db.execute("delete from sessions where token_sha256 = ?", (hash_token(token),))


def delete_of(db: sqlite3.Connection, user_id: str) -> int:
    """Delete all sessions of a user and return how many there were."""
    return db.execute("delete from sessions where user_id = ?", (user_id,)).rowcount


def count(db: sqlite3.Connection, user_id: str, now: datetime) -> int:
    """Count the valid sessions of a user."""
    query = "select count(*) from sessions where user_id = ? and created_at >= ? and seen_at >= ?"
    return int(db.execute(query, (user_id, *_oldest(now))).fetchone()[0])


def _oldest(now: datetime) -> tuple[str, str]:
    """Return the instants before which sessions have expired: of creation, and of last use."""
    return clock.format_ms(now - SESSION_LIFE), clock.format_ms(now - SESSION_IDLE_LIFE)
