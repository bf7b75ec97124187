"""Service API keys: rows of ``api_keys``.

The raw key is 256 random bits and is shown once. Only its SHA-256 is stored, which needs no salt for a
value that cannot be guessed. A key belongs to one user in one organisation and is valid as long as that
user is a member there.
"""

import hmac
import re
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from runtime import clock
from runtime.errors import ForbiddenError, NotFoundError
from store.control.audit import Activity
from store.control.names import check_name
from store.control.people import Caller
from store.control.records import Id, Instant, Line, Shared, Table
from store.control.tokens import hash_token
from store.pagination import START, Position

RAW_KEY = re.compile(r"sk_[A-Za-z0-9_-]{43}", re.ASCII)

CREATED = Activity("key.create", "created the key")
DELETED = Activity("key.delete", "deleted the key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A service API key without its secret. ``last_used_at`` is None until its first use."""

    id: Id
    user_id: Id
    organization_id: Id
    name: str
    key_prefix: Line
    created_at: Instant
    last_used_at: Instant | None = None


TABLE = Table(
    "api_keys", ApiKey, shared=Shared(added={"key_sha256": bytes}, omitted=("last_used_at",))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHolder(Caller):
    """The owner of a key as a caller, with the id and last use of the key."""

    key_id: str
    last_used_at: str | None


def list_after(
    db: sqlite3.Connection,
    organization_id: str,
    user_id: str,
    position: Position = START,
    limit: int = -1,
) -> Sequence[ApiKey]:
    """Return one user's keys after a position, newest first, up to ``limit`` (-1: all)."""
    return TABLE.read(
        db,
        "where user_id = ? and organization_id = ? and (created_at, id) < (?, ?)"
        " order by created_at desc, id desc limit ?",
        user_id,
        organization_id,
        position.created_at,
        position.id,
        limit,
    )


def create(
    db: sqlite3.Connection, organization_id: str, user_id: str, name: str
) -> tuple[ApiKey, str]:
    """Create a key; return it with its raw form, which is stored nowhere. Raises InvalidInputError."""
    raw = f"sk_{secrets.token_urlsafe(32)}"
    key = ApiKey(
        id=clock.new_id(),
        user_id=user_id,
        organization_id=organization_id,
        name=check_name(name, "a key"),
        key_prefix=f"{raw[:8]}...",
        created_at=clock.format_ms(clock.now()),
    )
    TABLE.insert(db, TABLE.make_row(key) | {"key_sha256": hash_token(raw)})
    return key, raw


def get(db: sqlite3.Connection, organization_id: str, user_id: str, key_id: str) -> ApiKey:
    """Return a key of the caller.

    Raises ForbiddenError for the key of another member, NotFoundError if the organisation has no such
    key."""
    key = TABLE.find(db, "where id = ? and organization_id = ?", key_id, organization_id)
    if key is None:
        raise NotFoundError(f"there is no key {key_id!r}; `taximeter keys list` shows yours")
    if key.user_id != user_id:
        raise ForbiddenError("only its owner may delete a key")
    return key


def delete(db: sqlite3.Connection, organization_id: str, user_id: str, key_id: str) -> ApiKey:
    """Delete a key of the caller. Raises what ``get`` raises."""
    key = get(db, organization_id, user_id, key_id)
    TABLE.delete(db, "where id = ?", key_id)
    return key


def find_holder(db: sqlite3.Connection, raw: str) -> KeyHolder | None:
    """Return the owner of the raw key ``raw`` as a caller, or None if the key is not valid."""
    if not RAW_KEY.fullmatch(raw):
        return None
    digest = hash_token(raw)
    row = db.execute(
        "select k.key_sha256, k.id, k.user_id, k.organization_id, m.role, o.time_zone, k.last_used_at"
        " from api_keys k join memberships m"
        " on m.user_id = k.user_id and m.organization_id = k.organization_id"
        " join organizations o on o.id = k.organization_id"
        " where k.key_sha256 = ?",
        (digest,),
    ).fetchone()
    # The lookup in the index is not in constant time, which does no harm: how far two hashes agree says
    # nothing about the keys.
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    _, key_id, user_id, organization_id, role, time_zone, last_used_at = row
    return KeyHolder(
        key_id=key_id,
        user_id=user_id,
        organization_id=organization_id,
        role=role,
        time_zone=time_zone,
        last_used_at=last_used_at,
    )


def is_known(db: sqlite3.Connection, raw: str) -> bool:
    """Return whether ``raw`` is a service API key of any user."""
    found = db.execute("select 1 from api_keys where key_sha256 = ?", (hash_token(raw),)).fetchone()
    return found is not None


def note_use(db: sqlite3.Connection, key_id: str, at: str) -> None:
    db.execute("update api_keys set last_used_at = ? where id = ?", (at, key_id))
