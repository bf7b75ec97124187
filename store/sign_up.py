"""Accounts that are created by signing in, and the rule that says who may create one.

The operator's ``users create`` and invitations always work.
"""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from store import audit, invitations, people
from store.errors import SignUpRefusedError
from store.invitations import Invitation


@dataclass(frozen=True, slots=True)
class SignUpRule:
    """The e-mail domains whose addresses may sign up; None means every address."""

    domains: Collection[str] | None = None

    @property
    def is_open(self) -> bool:
        return self.domains is None

    def allows(self, email: str) -> bool:
        """Return whether this address may sign up without an invitation."""
        return self.domains is None or email.partition("@")[2] in self.domains


OPEN = SignUpRule()
INVITED = SignUpRule(())


def parse_sign_up(text: str) -> SignUpRule:
    """Return the rule that a setting asks for. Raises ValueError."""
    if text in ("open", "invited"):
        return OPEN if text == "open" else INVITED
    parts = [part.strip().lower().removeprefix("@") for part in text.split(",")]
    try:
        domains = [people.parse_domain(part) for part in parts]
    except UnicodeError:
        domains = []
    if not domains or not all("." in domain for domain in domains):
        raise ValueError("write open, invited, or e-mail domains such as example.org,example.com")
    return SignUpRule(frozenset(domains))


def check(db: sqlite3.Connection, email: str, rule: SignUpRule, now: datetime) -> None:
    """Raises SignUpRefusedError for an address that is no member's and may not sign up."""
    user_id = people.find_user(db, email)
    is_member = user_id is not None and people.find_member(db, user_id) is not None
    if not is_member and not rule.allows(email) and not invitations.list_for(db, email, now):
        raise SignUpRefusedError


def find_or_create(db: sqlite3.Connection, email: str, rule: SignUpRule, now: datetime) -> str:
    """Return the id of the user with this address. Who is new, or was removed from everywhere, gets an
    organisation named for the address. Raises SignUpRefusedError."""
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
            audit.write(db, organization.id, user_id, "user.create", user_id, details)
    return user_id


def create_invited(db: sqlite3.Connection, invitation: Invitation) -> str:
    """Create the invited user, who needs no organisation of their own. Returns the id."""
    user_id = people.create_user(db, invitation.email)
    details = {"email": invitation.email, "role": "member"}
    audit.write(db, invitation.organization_id, user_id, "user.create", user_id, details)
    return user_id
