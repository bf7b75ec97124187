"""Management of all users of a service, by its operator. The local user has no address."""

from collections.abc import Sequence

from runtime.email_addresses import parse_email
from runtime.errors import ConflictError
from store.control import audit, people
from store.control.database import ControlDatabase
from store.control.people import Member


class Users:
    """The users in ``control.db``. Every method may also raise sqlite3.Error."""

    def __init__(self, control: ControlDatabase) -> None:
        self._control = control

    def list(self) -> Sequence[Member]:
        """Return all users, newest first."""
        with self._control.reading() as db:
            return people.list_members(db)

    def create(
        self, email: str, organization_name: str | None = None, join: str | None = None
    ) -> Member:
        """Create a user in a new organisation, or in the existing one ``join`` (an id or a name).

        The new organisation is called ``organization_name``, by default like the address. Raises
        InvalidInputError, ConflictError, NotFoundError."""
        with self._control.transaction() as db:
            user_id = people.create_user(db, email)
            if join is None:
                own_name = people.name_organization(parse_email(email))
                name = own_name if organization_name is None else organization_name
                organization = people.create_organization(db, name)
            else:
                organization = people.get_organization(db, join)
            people.join(db, organization.id, user_id, "owner" if join is None else "member")
            member = people.get_first_membership(db, user_id)
            details = {"email": member.email, "role": member.role}
            audit.write(db, organization.id, None, people.USER_CREATED, user_id, details)
            return member

    def delete(self, email: str) -> Member:
        """Delete a user with keys and sessions.

        The organisation, its endpoints and its traces stay. Raises NotFoundError, and ConflictError if
        the user is the only owner of an organisation with other members."""
        with self._control.transaction() as db:
            member = people.get_member(db, email)
            orphaned = people.find_orphaned(db, member.id)
            if orphaned is not None:
                raise ConflictError(
                    f"{email} is the only owner of {orphaned.name!r}, which has other members;"
                    " delete those first"
                )
            people.delete_user(db, member.id)
            details = {"email": member.email}
            audit.write(db, member.organization_id, None, people.USER_DELETED, member.id, details)
            return member
