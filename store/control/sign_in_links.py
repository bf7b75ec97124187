"""Sign-in links, each of which works once: rows of ``sign_in_links``."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime import clock
from store.control.audit import Activity
from store.control.tokens import hash_token, make_token

LINK_LIFE = timedelta(minutes=15)

MADE = Activity("user.link", "made a sign-in link for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The effect of a link. ``email`` is None for the local user. ``organization_name`` is set if the link
    is an invitation to that organisation."""

    email: str | None
    organization_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedLink:
    """A link that has just been used, for the user ``user_id`` or the address ``email``.

    ``email`` is empty if ``user_id`` is set."""

    user_id: str | None
    email: str
    invitation_id: str | None
    next_path: str


def create(
    db: sqlite3.Connection,
    now: datetime,
    *,
    user_id: str | None = None,
    email: str | None = None,
    invitation_id: str | None = None,
    next_path: str = "/",
    expires_at: datetime | None = None,
) -> str:
    """Store a sign-in link and return its token. Without ``expires_at`` it is valid for 15 minutes."""
    token = make_token()
    db.execute("delete from sign_in_links where expires_at < ?", (clock.format_ms(now),))
    db.execute(
        "insert into sign_in_links"
        " (token_sha256, user_id, email, invitation_id, next_path, expires_at)"
        " values (?, ?, ?, ?, ?, ?)",
        (
            hash_token(token),
            user_id,
            email,
            invitation_id,
            next_path,
            clock.format_ms(expires_at or now + LINK_LIFE),
        ),
    )
    return token


def find(db: sqlite3.Connection, token: str, now: datetime) -> Link | None:
    """Return the effect that this link would have, or None if it is not valid."""
    row = db.execute(
        "select l.invitation_id, coalesce(l.email, u.email), o.name from sign_in_links l"
        " left join users u on u.id = l.user_id"
        " left join invitations i on i.id = l.invitation_id"
        " left join organizations o on o.id = i.organization_id"
        " where l.token_sha256 = ? and l.used_at is null and l.expires_at >= ?",
        (hash_token(token), clock.format_ms(now)),
    ).fetchone()
    if row is None:
        return None
    invitation_id, email, organization_name = row
    if invitation_id is not None and organization_name is None:
        return None  # accepted, declined or withdrawn meanwhile
    return Link(email=email, organization_name=organization_name)


def use(db: sqlite3.Connection, token: str, now: datetime) -> UsedLink | None:
    """Mark a link as used and return it, or None if it is not valid."""
    at = clock.format_ms(now)
    row = db.execute(
        "update sign_in_links set used_at = ?"
        " where token_sha256 = ? and used_at is null and expires_at >= ?"
        " returning user_id, email, invitation_id, next_path",
        (at, hash_token(token), at),
    ).fetchone()
    if row is None:
        return None
    user_id, email, invitation_id, next_path = row
    return UsedLink(
        user_id=user_id, email=email or "", invitation_id=invitation_id, next_path=next_path
    )
