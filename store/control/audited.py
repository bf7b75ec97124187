"""Transactions that change something and write that into the activity log."""

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
    """Open a transaction; yield it and a function that writes an entry of the activity log for the caller.

    Raises ForbiddenError if the caller was removed or got another role since the request was
    authenticated, because permission is decided by ``caller.role``."""
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
    """Check that the caller is an owner. Raises ForbiddenError, which names the action ``what``."""
    if caller.role != "owner":
        raise ForbiddenError(f"only an owner of the organisation may {what}")
