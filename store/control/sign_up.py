"""Accounts that are created by signing in, and the rule for who may create one.

The rule does not apply to the operator's ``users create`` and to invitations."""

import sqlite3
from datetime import datetime

from runtime.errors import SignUpRefusedError
from runtime.sign_up_rule import SignUpRule
from store.control import audit, invitations, people
from store.control.invitations import Invitation


def check(db: sqlite3.Connection, email: str, rule: SignUpRule, now: datetime) -> None:
    """Check that an address may sign in.

    Raises SignUpRefusedError if it has no membership or invitation and may not sign up."""
    user_id = people.find_user(db, email)
    is_member = user_id is not None and people.find_member(db, user_id) is not None
    if not is_member and not rule.allows(email) and not invitations.list_for(db, email, now):
        raise SignUpRefusedError


def find_or_create(db: sqlite3.Connection, email: str, rule: SignUpRule, now: datetime) -> str:
    """Return the id of the user with this address, who is created if necessary.

    A user without membership gets an organisation named after the address. Raises SignUpRefusedError."""
    check(db, email, rule, now)
    user_id = people.find_user(db, email)
    is_new = user_id is None
    if user_id is None:
        user_id = people.create_user(db, email)
    if people.find_member(db, user_id) is None:
        organization = people.create_organization(db, people.name_organization(email))
        people.join(db, organization.id, user_id, "owner")
        if is_new:
            details = {"email": email, "role": "owner"}
            audit.write(db, organization.id, user_id, people.USER_CREATED, user_id, details)
    return user_id


def create_invited(db: sqlite3.Connection, invitation: Invitation) -> str:
    """Create the user of an invitation, without an organisation of their own. Returns the id."""
    user_id = people.create_user(db, invitation.email)
    details = {"email": invitation.email, "role": "member"}
    audit.write(db, invitation.organization_id, user_id, people.USER_CREATED, user_id, details)
    return user_id
