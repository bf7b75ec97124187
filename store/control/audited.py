"""Changes that the activity log has: a transaction, and the entry of what it changes."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.errors import ForbiddenError, NotFoundError
from store.control import audit, people
from store.control.audit import Activity, Details
from store.control.database import ControlDatabase
from store.control.people import Caller

type Note = Callable[[Activity, str, Details], None]


@contextmanager
def audited(control: ControlDatabase, caller: Caller) -> Iterator[tuple[sqlite3.Connection, Note]]:
    """Open a transaction; yield it and the function that writes the audit log for the caller.

    Raises ForbiddenError for a caller who has been removed since the request was authenticated, or has
    another role now: what the caller may do was or will be judged by ``caller.role``."""
    with control.transaction() as db:
        try:
            member = people.get_member_of(db, caller.organization_id, caller.user_id)
        except NotFoundError:
            raise ForbiddenError("you are no longer a member of this organisation") from None
        if member.role != caller.role:
            raise ForbiddenError("your role in this organisation has just changed; try again")
        acting_user = None if caller.is_operator else caller.user_id
        instead_of = {"for": member.email} if caller.is_operator else {}

        def note(activity: Activity, subject_id: str, details: Details) -> None:
            details = {**details, **instead_of}
            audit.write(db, caller.organization_id, acting_user, activity, subject_id, details)

        yield db, note


def require_owner(caller: Caller, what: str) -> None:
    """Check that the caller is an owner. Raises ForbiddenError."""
    if caller.role != "owner":
        raise ForbiddenError(f"only an owner of the organisation may {what}")
