"""Signing in: by links that work once, as an address that a provider verified, by invitation.

A verified address is the user with that address, whichever way it was verified; the first time,
user and organisation are created. The SQL is in ``sign_in_links`` and ``sessions``.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime import clock
from runtime.email_addresses import parse_email
from runtime.errors import NotFoundError
from runtime.sign_up_rule import OPEN, SignUpRule
from store.control import audit, invitations, people, sessions, sign_in_links, sign_up
from store.control.database import ControlDatabase
from store.control.invitations import Invitation
from store.control.sessions import Visitor
from store.control.sign_in_links import Link, UsedLink

# "link", "mail", "invitation", "demo", or the name of a provider.
type Method = str

SEEN_STEP = timedelta(minutes=1)  # a page view must not become a write


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A new session. ``token`` is the value of the cookie; ``next_path`` is the page to open."""

    token: str
    next_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The method and the network address of a sign-in, for the audit log."""

    method: Method
    client: str | None = None


LINK = Origin(method="link")


class SignIn:
    """Sign-in links and sessions in ``control.db``.

    ``now`` returns the present as an aware datetime, ``rule`` says who may create an account by signing
    in. Every method may raise sqlite3.Error."""

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
        """Return a token for ``/sign-in/link?token=…``, valid once within 15 minutes.

        The operator makes such links; the activity log of each organisation of the user has an entry."""
        with self._control.transaction() as db:
            details = {"email": people.get_email(db, user_id)}
            for organization in people.list_organizations_of(db, user_id):
                audit.write(db, organization.id, None, sign_in_links.MADE, user_id, details)
            return sign_in_links.create(db, self._now(), user_id=user_id, next_path=next_path)

    def make_email_link(self, email: str, next_path: str = "/") -> str:
        """Return the token of a sign-in link to be sent to this address.

        Raises InvalidInputError, SignUpRefusedError."""
        email = parse_email(email)
        with self._control.transaction() as db:
            sign_up.check(db, email, self._rule, self._now())
            return sign_in_links.create(db, self._now(), email=email, next_path=next_path)

    def make_invitation_link(self, invitation: Invitation) -> str:
        """Return the token of a sign-in link into the inviting organisation.

        The link is valid as long as the invitation."""
        with self._control.transaction() as db:
            return sign_in_links.create(
                db,
                self._now(),
                email=invitation.email,
                invitation_id=invitation.id,
                expires_at=clock.parse_instant(invitation.expires_at),
            )

    def find_link(self, token: str) -> Link | None:
        """Return the effect that this link would have, or None if it is not valid.

        This does not use the link up, since mail scanners open links."""
        with self._control.reading() as db:
            return sign_in_links.find(db, token, self._now())

    def use_link(self, token: str, client: str | None = None) -> Session | None:
        """Use the link up and sign in; return None if the link is not valid.

        ``client`` is the network address of the request. Raises SignUpRefusedError."""
        with self._control.transaction() as db:
            link = sign_in_links.use(db, token, self._now())
            session = None if link is None else self._sign_in_by(db, link, client)
            if link is None or session is None:
                return None
            return Session(token=session, next_path=link.next_path)

    # -- sessions ---------------------------------------------------------------------------------

    def sign_in(self, email: str, origin: Origin = LINK) -> str:
        """Open a session for the user with this address, and return its token.

        The caller has verified the address. Raises InvalidInputError, SignUpRefusedError."""
        with self._control.transaction() as db:
            user_id = self._find_or_create(db, parse_email(email))
            return self._begin(db, user_id, origin)

    def sign_in_locally(self, origin: Origin) -> str:
        """Open a session for the local user, and return its token.

        Raises NotFoundError if there is no local user."""
        with self._control.transaction() as db:
            return self._begin(db, people.get_user_id(db, None), origin)

    def find_visitor(self, session: str) -> Visitor | None:
        """Return the user of a session, or None if it is unknown, idle for too long or expired.

        Updates the time of last use of the session, at most every ``SEEN_STEP``."""
        with self._control.reading() as db:
            visitor, seen_at = sessions.find_visitor(db, session, self._now())
        if visitor is not None and seen_at < clock.format_ms(self._now() - SEEN_STEP):
            self._note_seen(session)
        return visitor

    def accept_invitation(self, session: str, invitation_id: str) -> None:
        """Accept an invitation for the user of a session and switch to that organisation.

        Raises NotFoundError if the session has ended, or the user has no such invitation any more."""
        with self._control.transaction() as db:
            visitor, _ = sessions.find_visitor(db, session, self._now())
            email = visitor.email if visitor is not None else None
            invitation = invitations.find(db, invitation_id, email, self._now()) if email else None
            if visitor is None or invitation is None:
                raise NotFoundError("this invitation has been withdrawn or has expired")
            _accept(db, invitation, visitor.user_id)
            sessions.switch(db, session, invitation.organization_id)

    def switch_organization(self, session: str, organization_id: str) -> None:
        """Switch a session to another organisation of its user.

        Raises NotFoundError if the session has ended, or its user is no member of that organisation."""
        with self._control.transaction() as db:
            visitor, _ = sessions.find_visitor(db, session, self._now())
            if visitor is None:
                raise NotFoundError("this session has ended")
            people.get_member_of(db, organization_id, visitor.user_id)
            sessions.switch(db, session, organization_id)

    def sign_out(self, session: str) -> None:
        with self._control.transaction() as db:
            sessions.delete(db, session)

    def sign_out_everywhere(self, user_id: str) -> int:
        """End all sessions of a user and return how many there were."""
        with self._control.transaction() as db:
            return sessions.delete_of(db, user_id)

    def count_sessions(self, user_id: str) -> int:
        """Count the valid sessions of a user on all devices."""
        with self._control.reading() as db:
            return sessions.count(db, user_id, self._now())

    # -- within -----------------------------------------------------------------------------------

    def _sign_in_by(self, db: sqlite3.Connection, link: UsedLink, client: str | None) -> str | None:
        """Open a session for the user or address of a link, and return its token.

        A user is created for an address that has none. If the link is an invitation, the user joins its
        organisation. None if the invitation is no longer open. Raises SignUpRefusedError."""
        if link.invitation_id is not None:
            invitation = invitations.find(db, link.invitation_id, link.email, self._now())
            return None if invitation is None else self._join(db, invitation, client)
        origin = Origin(method="link" if link.user_id else "mail", client=client)
        user_id = link.user_id or self._find_or_create(db, link.email)
        return self._begin(db, user_id, origin)

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
        """Open a session, log it in every organisation of the user, and return its token."""
        details = {"by": origin.method, "client": origin.client}
        for organization in people.list_organizations_of(db, user_id):
            audit.write(db, organization.id, user_id, sessions.OPENED, user_id, details)
        return sessions.create(db, user_id, self._now(), organization_id)

    def _note_seen(self, session: str) -> None:
        # No page waits for it: while another process writes, the next view updates it.
        with suppress(sqlite3.OperationalError), self._control.transaction(wait=False) as db:
            sessions.note_use(db, session, self._now())


def _accept(db: sqlite3.Connection, invitation: Invitation, user_id: str) -> None:
    invitations.accept(db, invitation, user_id)
    details = {"email": invitation.email, "invited_by": invitation.invited_by}
    audit.write(db, invitation.organization_id, user_id, invitations.ACCEPTED, user_id, details)
