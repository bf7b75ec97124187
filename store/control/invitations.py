"""Invitations into an organisation: rows of ``invitations``, gone once they are accepted or declined.

An invitation is for an address. Only a user who has signed in with that address can accept it, so it
needs no secret of its own.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from runtime import clock
from runtime.email_addresses import parse_email
from runtime.errors import ConflictError, NotFoundError
from store.control import people
from store.control.audit import Activity
from store.control.records import Id, Instant, Joined, Shared, Table

LIFE = timedelta(days=7)
MAX_PENDING = 100

SENT = Activity("member.invite", "invited")
ACCEPTED = Activity("member.join", "joined")
WITHDRAWN = Activity("invitation.delete", "withdrew the invitation of")
DECLINED = Activity("invitation.decline", "declined the invitation of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """An invitation. ``invited_by`` is the inviting user's address, None for the local user."""

    id: Id
    organization_id: Id
    organization_name: Annotated[str, Joined("organizations.name")]
    email: str
    invited_by: str | None
    created_at: Instant
    expires_at: Instant


# Shared: the home page of whoever is invited shows them.
TABLE = Table(
    "invitations",
    Invitation,
    "join organizations on organizations.id = invitations.organization_id",
    shared=Shared(),
)


def create(
    db: sqlite3.Connection, organization_id: str, email: str, invited_by: str | None, now: datetime
) -> Invitation:
    """Invite an address, or renew its invitation for another week.

    Raises InvalidInputError, and ConflictError if the address is a member's."""
    email = parse_email(email)
    if any(member.email == email for member in people.list_members_of(db, organization_id)):
        raise ConflictError(f"{email} is already a member", "email")
    db.execute("delete from invitations where expires_at < ?", (clock.format_ms(now),))
    pending = [other.email for other in list_of(db, organization_id, now)]
    if email not in pending and len(pending) >= MAX_PENDING:
        raise ConflictError(f"{MAX_PENDING} invitations are pending; withdraw some first", "email")
    row = {
        "id": clock.new_id(),
        "organization_id": organization_id,
        "email": email,
        "invited_by": invited_by,
        "created_at": clock.format_ms(now),
        "expires_at": clock.format_ms(now + LIFE),
    }
    TABLE.insert(
        db,
        row,
        key="organization_id, email",
        kept=("id", "created_at"),
    )
    return next(each for each in list_of(db, organization_id, now) if each.email == email)


def list_of(db: sqlite3.Connection, organization_id: str, now: datetime) -> Sequence[Invitation]:
    """Return the open invitations of an organisation, oldest first."""
    return TABLE.read(
        db,
        "where organization_id = ? and expires_at >= ? order by invitations.created_at, invitations.id",
        organization_id,
        clock.format_ms(now),
    )


def list_for(db: sqlite3.Connection, email: str, now: datetime) -> Sequence[Invitation]:
    """Return the open invitations for an address, oldest first."""
    return TABLE.read(
        db,
        "where email = ? and expires_at >= ? order by invitations.created_at, invitations.id",
        email,
        clock.format_ms(now),
    )


def find(
    db: sqlite3.Connection, invitation_id: str, email: str, now: datetime
) -> Invitation | None:
    """Return an open invitation, or None if it is gone, expired or for another address."""
    return TABLE.find(
        db,
        "where invitations.id = ? and email = ? and expires_at >= ?",
        invitation_id,
        email,
        clock.format_ms(now),
    )


def accept(db: sqlite3.Connection, invitation: Invitation, user_id: str) -> None:
    """Make the user a member. Accepting twice has no further effect."""
    TABLE.delete(db, "where id = ?", invitation.id)
    organizations = people.list_organizations_of(db, user_id)
    if all(organization.id != invitation.organization_id for organization in organizations):
        people.join(db, invitation.organization_id, user_id, "member")


def delete(db: sqlite3.Connection, organization_id: str, invitation_id: str) -> Invitation:
    """Delete an invitation. Raises NotFoundError."""
    invitation = TABLE.find(
        db, "where invitations.id = ? and organization_id = ?", invitation_id, organization_id
    )
    if invitation is None:
        raise NotFoundError("this invitation has been accepted, declined or withdrawn")
    TABLE.delete(db, "where id = ?", invitation_id)
    return invitation
