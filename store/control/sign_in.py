"""Signing in: links that work once, and sessions.

A verified address is the user with that address, whichever way it was verified; the first time,
user and organisation are created.

Tokens are 256 random bits; only their SHA-256 is stored, which needs no salt for a value nobody can
guess. Expiry is checked on use, so that an old token does not outlive a time when the service was
off.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime import clock
from runtime.email_addresses import parse_email
from runtime.errors import NotFoundError
from runtime.sign_up_rule import OPEN, SignUpRule
from store.control import audit, invitations, people, sign_up
from store.control.database import ControlDatabase
from store.control.invitations import Invitation
from store.control.people import Caller

# "link", "mail", "invitation", or the name of a provider.
type Method = str

LINK_LIFE = timedelta(minutes=15)
SESSION_IDLE_LIFE = timedelta(days=7)
SESSION_LIFE = timedelta(days=30)
SEEN_STEP = timedelta(minutes=1)  # a page view must not become a write


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor(Caller):
    """The user of a session. ``email`` is None for the local user of a first start."""

    email: str | None
    organization_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The effect of a link. ``email`` is None for the local user; ``organization_name`` is set
    where it is an invitation to that organisation."""

    email: str | None
    organization_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A new session. ``token`` is the value of the cookie; ``next_path`` is the page that was
    requested."""

    token: str
    next_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The method and the network address of a sign-in, for the audit log."""

    method: Method
    client: str | None = None


LINK = Origin(method="link")


class SignIn:
    """Links and sessions in ``control.db``.

    ``now`` returns the present as an aware datetime, ``rule`` says who may create an account by
    signing in. Every method may raise sqlite3.Error."""

    def __init__(
        self,
        control: ControlDatabase,
        now: Callable[[], datetime] = clock.now,
        rule: SignUpRule = OPEN,
    ) -> None:
        self._control = control
        self._now = now
        self._rule = rule

    # -- links ------------------------------------------------------------------------------------

    def make_link(self, user_id: str, next_path: str = "/") -> str:
        """Return a token for ``/sign-in/link?token=…``, good once within 15 minutes.

        The operator makes it, which is noted in the activity log of each organisation of the user.
        """
        with self._control.transaction() as db:
            details = {"email": people.get_email(db, user_id)}
            for organization in people.list_organizations_of(db, user_id):
                audit.write(db, organization.id, None, "user.link", user_id, details)
            return self._make_link(db, user_id=user_id, next_path=next_path)

    def make_email_link(self, email: str, next_path: str = "/") -> str:
        """Return a sign-in link to be sent to this address.

        Raises InvalidInputError, SignUpRefusedError."""
        email = parse_email(email)
        with self._control.transaction() as db:
            sign_up.check(db, email, self._rule, self._now())
            return self._make_link(db, email=email, next_path=next_path)

    def make_invitation_link(self, invitation: Invitation) -> str:
        """Return a sign-in link into the inviting organisation, valid as long as the invitation."""
        with self._control.transaction() as db:
            return self._make_link(
                db,
                email=invitation.email,
                invitation_id=invitation.id,
                expires_at=clock.parse_instant(invitation.expires_at),
            )

    def _make_link(
        self,
        db: sqlite3.Connection,
        *,
        user_id: str | None = None,
        email: str | None = None,
        invitation_id: str | None = None,
        next_path: str = "/",
        expires_at: datetime | None = None,
    ) -> str:
        token = secrets.token_urlsafe(32)
        now = self._now()
        db.execute("delete from sign_in_links where expires_at < ?", (clock.format_ms(now),))
        db.execute(
            "insert into sign_in_links"
            " (token_sha256, user_id, email, invitation_id, next_path, expires_at)"
            " values (?, ?, ?, ?, ?, ?)",
            (
                _hash(token),
                user_id,
                email,
                invitation_id,
                next_path,
                clock.format_ms(expires_at or now + LINK_LIFE),
            ),
        )
        return token

    def find_link(self, token: str) -> Link | None:
        """Return what this link would do, or None when it is not valid. Looking does not use it up:
        mail scanners open links."""
        now = clock.format_ms(self._now())
        with self._control.reading() as db:
            row = db.execute(
                "select l.invitation_id, coalesce(l.email, u.email), o.name from sign_in_links l"
                " left join users u on u.id = l.user_id"
                " left join invitations i on i.id = l.invitation_id"
                " left join organizations o on o.id = i.organization_id"
                " where l.token_sha256 = ? and l.used_at is null and l.expires_at >= ?",
                (_hash(token), now),
            ).fetchone()
        if row is None:
            return None
        invitation_id, email, organization_name = row
        if invitation_id is not None and organization_name is None:
            return None  # accepted, declined or withdrawn meanwhile
        return Link(email=email, organization_name=organization_name)

    def use_link(self, token: str, client: str | None = None) -> Session | None:
        """Use the link up and sign in. None for a link that is not good. Raises SignUpRefusedError.

        ``client`` is the network address it is used from."""
        now = clock.format_ms(self._now())
        with self._control.transaction() as db:
            row = db.execute(
                "update sign_in_links set used_at = ?"
                " where token_sha256 = ? and used_at is null and expires_at >= ?"
                " returning user_id, email, invitation_id, next_path",
                (now, _hash(token), now),
            ).fetchone()
            if row is None:
                return None
            user_id, email, invitation_id, next_path = row
            if invitation_id is not None:
                invitation = invitations.find(db, invitation_id, email, self._now())
                if invitation is None:
                    return None
                session = self._join(db, invitation, client)
            else:
                origin = Origin(method="link" if user_id else "mail", client=client)
                user_id = user_id or self._find_or_create(db, email)
                session = self._begin(db, user_id, origin)
            return Session(token=session, next_path=next_path)

    # -- sessions ---------------------------------------------------------------------------------

    def sign_in(self, email: str, origin: Origin = LINK) -> str:
        """Open a session for the user with this address, which the caller has verified. Returns its
        token. Raises InvalidInputError, SignUpRefusedError."""
        with self._control.transaction() as db:
            user_id = self._find_or_create(db, parse_email(email))
            return self._begin(db, user_id, origin)

    def find_visitor(self, session: str) -> Visitor | None:
        """Return the user of a session, or None when it is unknown, idle for too long or expired."""
        with self._control.reading() as db:
            visitor, seen_at = self._find_visitor(db, session)
        if visitor is not None and seen_at < clock.format_ms(self._now() - SEEN_STEP):
            self._note_seen(session)
        return visitor

    def accept_invitation(self, session: str, invitation_id: str) -> None:
        """Accept an invitation for the user of a session and switch to that organisation.

        Raises NotFoundError."""
        with self._control.transaction() as db:
            visitor, _ = self._find_visitor(db, session)
            email = visitor.email if visitor is not None else None
            invitation = invitations.find(db, invitation_id, email, self._now()) if email else None
            if visitor is None or invitation is None:
                raise NotFoundError("this invitation has been withdrawn or has expired")
            _accept(db, invitation, visitor.user_id)
            self._enter(db, session, invitation.organization_id)

    def switch_organization(self, session: str, organization_id: str) -> None:
        """Switch a session to another organisation of its user. Raises NotFoundError."""
        with self._control.transaction() as db:
            visitor, _ = self._find_visitor(db, session)
            if visitor is None:
                raise NotFoundError("this session has ended")
            people.get_member_of(db, organization_id, visitor.user_id)
            self._enter(db, session, organization_id)

    def sign_out(self, session: str) -> None:
        with self._control.transaction() as db:
            db.execute("delete from sessions where token_sha256 = ?", (_hash(session),))

    def sign_out_everywhere(self, user_id: str) -> int:
        """End all sessions of a user and return how many there were."""
        with self._control.transaction() as db:
            return db.execute("delete from sessions where user_id = ?", (user_id,)).rowcount

    def count_sessions(self, user_id: str) -> int:
        """Count the valid sessions of a user on all devices."""
        with self._control.reading() as db:
            return int(
                db.execute(
                    "select count(*) from sessions"
                    " where user_id = ? and created_at >= ? and seen_at >= ?",
                    (user_id, *self._oldest()),
                ).fetchone()[0]
            )

    # -- within -----------------------------------------------------------------------------------

    def _oldest(self) -> tuple[str, str]:
        """Return the times before which sessions have expired: of opening, and of last use."""
        now = self._now()
        return clock.format_ms(now - SESSION_LIFE), clock.format_ms(now - SESSION_IDLE_LIFE)

    def _find_visitor(self, db: sqlite3.Connection, session: str) -> tuple[Visitor | None, str]:
        """Return the user of a session and the time of its last use."""
        row = db.execute(
            "select s.seen_at, u.id, u.email, o.id, o.name, m.role from sessions s"
            " join users u on u.id = s.user_id join memberships m on m.user_id = u.id"
            " join organizations o on o.id = m.organization_id"
            " where s.token_sha256 = ? and s.created_at >= ? and s.seen_at >= ?"
            " and coalesce(s.organization_id, o.id) = o.id"
            " order by m.created_at, o.id limit 1",
            (_hash(session), *self._oldest()),
        ).fetchone()
        if row is None:
            return None, ""
        seen_at, user_id, email, organization_id, organization_name, role = row
        visitor = Visitor(
            user_id=user_id,
            email=email,
            organization_id=organization_id,
            organization_name=organization_name,
            role=role,
        )
        return visitor, seen_at

    def _find_or_create(self, db: sqlite3.Connection, email: str) -> str:
        return sign_up.find_or_create(db, email, self._rule, self._now())

    def _join(self, db: sqlite3.Connection, invitation: Invitation, client: str | None) -> str:
        user_id = people.find_user(db, invitation.email)
        if user_id is None:
            user_id = sign_up.create_invited(db, invitation)
        _accept(db, invitation, user_id)
        origin = Origin(method="invitation", client=client)
        return self._begin(db, user_id, origin, invitation.organization_id)

    def _begin(
        self,
        db: sqlite3.Connection,
        user_id: str,
        origin: Origin,
        organization_id: str | None = None,
    ) -> str:
        """Open a session, and log that in every organisation it gives access to."""
        details = {"by": origin.method, "client": origin.client}
        for organization in people.list_organizations_of(db, user_id):
            audit.write(db, organization.id, user_id, "user.sign_in", user_id, details)
        return self._open_session(db, user_id, organization_id)

    def _open_session(
        self, db: sqlite3.Connection, user_id: str, organization_id: str | None = None
    ) -> str:
        session = secrets.token_urlsafe(32)
        now = clock.format_ms(self._now())
        db.execute("delete from sessions where created_at < ? or seen_at < ?", self._oldest())
        db.execute(
            "insert into sessions (token_sha256, user_id, organization_id, created_at, seen_at)"
            " values (?, ?, ?, ?, ?)",
            (_hash(session), user_id, organization_id, now, now),
        )
        return session

    def _enter(self, db: sqlite3.Connection, session: str, organization_id: str) -> None:
        db.execute(
            "update sessions set organization_id = ? where token_sha256 = ?",
            (organization_id, _hash(session)),
        )

    def _note_seen(self, session: str) -> None:
        # No page waits for it: while another process writes, the next view updates it.
        with suppress(sqlite3.OperationalError), self._control.transaction(wait=False) as db:
            db.execute(
                "update sessions set seen_at = ? where token_sha256 = ?",
                (clock.format_ms(self._now()), _hash(session)),
            )


def _accept(db: sqlite3.Connection, invitation: Invitation, user_id: str) -> None:
    invitations.accept(db, invitation, user_id)
    details = {"email": invitation.email, "invited_by": invitation.invited_by}
    audit.write(db, invitation.organization_id, user_id, "member.join", user_id, details)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
