"""Organisations, users and memberships.

An address is stored in lower case, so that it is the same user however it is typed. Mail goes to
the address exactly as it is stored. An address is refused if lower case or the rules of domain
names would turn it into another person's, because its owner would then sign in as that person. The
local user of a first start has no address."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from runtime import clock
from runtime.email_addresses import parse_email
from runtime.errors import ConflictError, InvalidInputError, NotFoundError
from store.control.audit import Activity
from store.control.names import MAX_LENGTH, check_name
from store.control.records import Id, Instant, Joined, Line, Shared, Table

type Role = Literal["owner", "member"]


MEMBER_REMOVED = Activity("member.remove", "removed")
USER_CREATED = Activity("user.create", "signed up")
USER_DELETED = Activity("user.delete", "deleted the user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user who makes a request, and the organisation that the request is for.

    With ``is_operator`` the operator of the service acts for this user at the command line.
    ``time_zone`` is the organisation's; only pages set it."""

    user_id: str
    organization_id: str
    role: Role
    is_operator: bool = False
    time_zone: str = "UTC"

    @classmethod
    def of_operator(cls, organization_id: str) -> "Caller":
        """Return the operator as a caller who is no user of the organisation."""
        return cls(user_id="", organization_id=organization_id, role="owner", is_operator=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: Id
    name: str
    created_at: Instant
    time_zone: Line = "UTC"


ORGANIZATIONS = Table("organizations", Organization, shared=Shared())


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A user, as a member of an organisation. ``email`` is None for the local user."""

    id: Annotated[Id, Joined("users.id")]
    email: Annotated[str | None, Joined("users.email")]
    created_at: Annotated[Instant, Joined("users.created_at")]
    organization_id: Id
    organization_name: Annotated[str, Joined("organizations.name")]
    role: Role
    joined_at: Annotated[Instant, Joined("memberships.created_at")]


MEMBERS = Table(
    "memberships",
    Member,
    "join users on users.id = memberships.user_id"
    " join organizations on organizations.id = memberships.organization_id",
)


def list_organization_ids(db: sqlite3.Connection) -> list[str]:
    """Return the ids of all organisations."""
    return [row[0] for row in db.execute("select id from organizations order by id")]


def find_user(db: sqlite3.Connection, email: str | None) -> str | None:
    """Return the id of the user with this address, or None. ``email=None`` is the local user."""
    try:
        address = None if email is None else parse_email(email)
    except InvalidInputError:
        return None
    row = db.execute(
        "select id from users where email is ? order by created_at, id limit 1", (address,)
    ).fetchone()
    return None if row is None else str(row[0])


def get_member(db: sqlite3.Connection, email: str | None) -> Member:
    """Return the user with this address, as a member of the organisation joined first.

    ``email=None`` is the local user. Raises NotFoundError."""
    return get_first_membership(db, get_user_id(db, email))


def get_user_id(db: sqlite3.Connection, email: str | None) -> str:
    """Return the id of the user with this address. ``email=None`` is the local user. Raises NotFoundError."""
    user_id = find_user(db, email)
    if user_id is None:
        raise NotFoundError(
            f"there is no user {email}; `taximeter users list` shows them"
            if email
            else "there is no local user here; the node with the role web has the people"
        )
    return user_id


def get_first_membership(db: sqlite3.Connection, user_id: str) -> Member:
    """Return a user as a member of the organisation joined first. Raises NotFoundError."""
    member = find_member(db, user_id)
    if member is None:
        raise NotFoundError("this user is not a member of any organisation")
    return member


def get_email(db: sqlite3.Connection, user_id: str) -> str | None:
    """Return the address of a user, None for the local user. Raises NotFoundError."""
    row = db.execute("select email from users where id = ?", (user_id,)).fetchone()
    if row is None:
        raise NotFoundError(f"there is no user {user_id!r}")
    email: str | None = row[0]
    return email


def find_member(db: sqlite3.Connection, user_id: str) -> Member | None:
    """Return a user as a member of the organisation joined first, or None without an organisation."""
    return MEMBERS.find(
        db,
        "where user_id = ? order by memberships.created_at, organization_id limit 1",
        user_id,
    )


def list_members_of(db: sqlite3.Connection, organization_id: str) -> Sequence[Member]:
    """Return the members of an organisation in the order they joined."""
    return MEMBERS.read(
        db, "where organization_id = ? order by memberships.created_at, user_id", organization_id
    )


def get_member_of(db: sqlite3.Connection, organization_id: str, user_id: str) -> Member:
    """Return a member of an organisation. Raises NotFoundError."""
    member = MEMBERS.find(db, "where organization_id = ? and user_id = ?", organization_id, user_id)
    if member is None:
        raise NotFoundError(f"there is no member {user_id!r}")
    return member


def list_organizations_of(db: sqlite3.Connection, user_id: str) -> Sequence[Organization]:
    """Return the organisations of a user in the order of joining."""
    return ORGANIZATIONS.read(
        db,
        "join memberships on memberships.organization_id = organizations.id"
        " where user_id = ? order by memberships.created_at, organizations.id",
        user_id,
    )


def find_first_organization(db: sqlite3.Connection) -> Organization | None:
    """Return the organisation that was created first, or None if there is none."""
    return ORGANIZATIONS.find(db, "order by created_at, id limit 1")


def list_members(db: sqlite3.Connection) -> Sequence[Member]:
    """Return all members of all organisations, those of the newest user first."""
    return MEMBERS.read(db, "order by users.created_at desc, users.id desc")


def name_organization(email: str) -> str:
    """Return the name of the organisation that is created for a new user: the address, cut to length."""
    return email[:MAX_LENGTH]


def create_organization(db: sqlite3.Connection, name: str) -> Organization:
    """Create and return an organisation. Raises InvalidInputError."""
    organization = Organization(
        id=clock.new_id(), name=check_name(name, "an organisation"), created_at=_now()
    )
    ORGANIZATIONS.insert(db, organization)
    return organization


def get_organization(db: sqlite3.Connection, id_or_name: str) -> Organization:
    """Return the organisation with this id or name.

    Raises NotFoundError, and ConflictError if several have the name."""
    found = ORGANIZATIONS.read(
        db,
        "where id = ? or name = ? order by id = ? desc limit 2",
        id_or_name,
        id_or_name,
        id_or_name,
    )
    if not found:
        raise NotFoundError(f"there is no organisation {id_or_name!r}")
    if len(found) > 1 and found[0].id != id_or_name:
        raise ConflictError(
            f"several organisations are named {id_or_name!r}; name one by its id", "organization"
        )
    return found[0]


def create_user(db: sqlite3.Connection, email: str | None) -> str:
    """Create a user and return the id. Raises InvalidInputError, ConflictError."""
    if email is not None:
        email = parse_email(email)
        if find_user(db, email) is not None:
            raise ConflictError(f"the user {email} already exists", "email")
    user_id = clock.new_id()
    db.execute(
        "insert into users (id, email, created_at) values (?, ?, ?)", (user_id, email, _now())
    )
    return user_id


def join(db: sqlite3.Connection, organization_id: str, user_id: str, role: Role) -> None:
    """Make a user a member. Raises sqlite3.IntegrityError if the user is a member already."""
    db.execute(
        "insert into memberships (organization_id, user_id, role, created_at) values (?, ?, ?, ?)",
        (organization_id, user_id, role, _now()),
    )


def delete_user(db: sqlite3.Connection, user_id: str) -> None:
    """Delete a user with their memberships, keys and sessions.

    Sign-in links of the user and invitations for the user's address are deleted too. The data of their
    organisations stays."""
    for table in ("sign_in_links", "invitations"):
        db.execute(
            f"delete from {table} where email = (select email from users where id = ?)",  # noqa: S608 - one of two
            (user_id,),
        )
    for table in ("api_keys", "sessions", "sign_in_links", "memberships"):
        db.execute(f"delete from {table} where user_id = ?", (user_id,))  # noqa: S608 - one of four
    db.execute("delete from users where id = ?", (user_id,))


def remove_member(db: sqlite3.Connection, organization_id: str, user_id: str) -> None:
    """Remove a member from an organisation; the user stays.

    Their keys there, the invitations they have sent and an invitation for themselves are deleted, so
    that they cannot come back. All their sessions end, also those in other organisations."""
    for table in ("api_keys", "memberships"):
        db.execute(
            f"delete from {table} where organization_id = ? and user_id = ?",  # noqa: S608 - one of two
            (organization_id, user_id),
        )
    db.execute(
        "delete from invitations where organization_id = ?"
        " and (select email from users where id = ?) in (email, invited_by)",
        (organization_id, user_id),
    )
    db.execute("delete from sessions where user_id = ?", (user_id,))


def count_owners(db: sqlite3.Connection, organization_id: str) -> int:
    return int(
        db.execute(
            "select count(*) from memberships where organization_id = ? and role = 'owner'",
            (organization_id,),
        ).fetchone()[0]
    )


def find_orphaned(db: sqlite3.Connection, user_id: str) -> Organization | None:
    """Return an organisation with other members whose only owner is this user, or None."""
    return ORGANIZATIONS.find(
        db,
        "join memberships mine on mine.organization_id = organizations.id"
        " where mine.user_id = ? and mine.role = 'owner'"
        " and exists (select 1 from memberships m where m.organization_id = organizations.id"
        "   and m.user_id <> mine.user_id)"
        " and not exists (select 1 from memberships m where m.organization_id = organizations.id"
        "   and m.user_id <> mine.user_id and m.role = 'owner')",
        user_id,
    )


def _now() -> str:
    return clock.format_ms(clock.now())
