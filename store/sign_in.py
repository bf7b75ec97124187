"""Signing a person in: links that work once, and sessions.

Tokens are 256 random bits; only their SHA-256 is stored, which needs no salt for a value nobody can
guess. Expiry is checked on use, so a service that was off does not let old ones live longer.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from store import clock
from store.control import ControlDatabase

LINK_LIFE = timedelta(minutes=15)
SESSION_IDLE_LIFE = timedelta(days=7)
SESSION_LIFE = timedelta(days=30)
SEEN_STEP = timedelta(minutes=1)  # a page view must not become a write


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who a session belongs to. ``email`` is None for the local user of a first start."""

    user_id: str
    email: str | None
    organization_id: str


class SignIn:
    """``now`` gives the present as an aware datetime."""

    def __init__(self, control: ControlDatabase, now: Callable[[], datetime] = clock.now) -> None:
        self._control = control
        self._now = now

    def make_link(self, user_id: str) -> str:
        """A token for ``/sign-in/link?token=…``, good once within 15 minutes."""
        token = secrets.token_urlsafe(32)
        now = self._now()
        with self._control.transaction() as db:
            db.execute("delete from sign_in_links where expires_at < ?", (clock.format_ms(now),))
            db.execute(
                "insert into sign_in_links (token_sha256, user_id, expires_at) values (?, ?, ?)",
                (_hash(token), user_id, clock.format_ms(now + LINK_LIFE)),
            )
        return token

    def is_link_good(self, token: str) -> bool:
        """Could this link be used now? Asking does not use it up: mail scanners open links."""
        with self._control.reading() as db:
            return (
                db.execute(
                    "select 1 from sign_in_links"
                    " where token_sha256 = ? and used_at is null and expires_at >= ?",
                    (_hash(token), clock.format_ms(self._now())),
                ).fetchone()
                is not None
            )

    def use_link(self, token: str) -> str | None:
        """Use the link up. Returns the token of a new session, None for a link that is not good."""
        now = clock.format_ms(self._now())
        session = secrets.token_urlsafe(32)
        with self._control.transaction() as db:
            row = db.execute(
                "update sign_in_links set used_at = ?"
                " where token_sha256 = ? and used_at is null and expires_at >= ? returning user_id",
                (now, _hash(token), now),
            ).fetchone()
            if row is None:
                return None
            db.execute(
                "insert into sessions (token_sha256, user_id, created_at, seen_at)"
                " values (?, ?, ?, ?)",
                (_hash(session), row[0], now, now),
            )
        return session

    def find_visitor(self, session: str) -> Visitor | None:
        """Whose session this is, None when it is unknown, idle for too long or too old."""
        now = self._now()
        with self._control.reading() as db:
            row = db.execute(
                "select s.seen_at, u.id, u.email, m.organization_id from sessions s"
                " join users u on u.id = s.user_id join memberships m on m.user_id = u.id"
                " where s.token_sha256 = ? and s.created_at >= ? and s.seen_at >= ?"
                " order by m.created_at limit 1",
                (
                    _hash(session),
                    clock.format_ms(now - SESSION_LIFE),
                    clock.format_ms(now - SESSION_IDLE_LIFE),
                ),
            ).fetchone()
        if row is None:
            return None
        seen_at, user_id, email, organization_id = row
        if seen_at < clock.format_ms(now - SEEN_STEP):
            self._note_seen(session, now)
        return Visitor(user_id=user_id, email=email, organization_id=organization_id)

    def _note_seen(self, session: str, now: datetime) -> None:
        # No page waits for it: while somebody else writes, the next view notes it.
        with suppress(sqlite3.OperationalError), self._control.transaction(wait=False) as db:
            db.execute(
                "update sessions set seen_at = ? where token_sha256 = ?",
                (clock.format_ms(now), _hash(session)),
            )

    def sign_out(self, session: str) -> None:
        with self._control.transaction() as db:
            db.execute("delete from sessions where token_sha256 = ?", (_hash(session),))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
