"""Names of credentials and of subscriptions, by their fingerprints: rows of ``credential_names``.

The credential itself is stored nowhere. A subscription has the fingerprint that ``/limits.json`` calls its
account, which stays when its tokens are renewed.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from store.control.audit import Activity
from store.control.names import check_name
from store.control.records import Id, Instant, Line, Shared, Table

MAX_NAMES = 1_000  # of an organisation
_FINGERPRINT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

NAMED = Activity("credential.name", "named the credential")
UNNAMED = Activity("credential.unname", "removed the name of the credential")


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialName:
    """The name of a credential or of a subscription."""

    organization_id: Id
    fingerprint: Id
    name: Line
    created_at: Instant


TABLE = Table(
    "credential_names", CredentialName, shared=Shared(key=("organization_id", "fingerprint"))
)


def list_of(db: sqlite3.Connection, organization_id: str) -> Sequence[CredentialName]:
    """Return the names that an organisation has given, in their order."""
    return TABLE.read(db, "where organization_id = ? order by name, fingerprint", organization_id)


def read_names(db: sqlite3.Connection, organization_id: str) -> Mapping[str, str]:
    """Return the names of an organisation by their fingerprints."""
    return {each.fingerprint: each.name for each in list_of(db, organization_id)}


def write(
    db: sqlite3.Connection, organization_id: str, fingerprint: str, name: str
) -> CredentialName:
    """Name a credential, in the place of the name that it had.

    Raises InvalidInputError, LimitReachedError."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise InvalidInputError(
            "a credential is named by its fingerprint, which pages and `taximeter usage"
            " --by credential` show",
            "fingerprint",
        )
    found = CredentialName(
        organization_id=organization_id,
        fingerprint=fingerprint,
        name=check_name(name, "a credential"),
        created_at=clock.format_ms(clock.now()),
    )
    (others,) = db.execute(
        "select count(*) from credential_names where organization_id = ? and fingerprint <> ?",
        (organization_id, fingerprint),
    ).fetchone()
    if others >= MAX_NAMES:
        raise LimitReachedError(
            f"an organisation names at most {format_count(MAX_NAMES)} credentials; delete a name"
        )
    TABLE.insert(
        db,
        TABLE.make_row(found),
        "on conflict (organization_id, fingerprint)"
        " do update set name = excluded.name, created_at = excluded.created_at",
    )
    return found


def delete(db: sqlite3.Connection, organization_id: str, fingerprint: str) -> CredentialName:
    """Delete the name of a credential. Raises NotFoundError."""
    end = "where organization_id = ? and fingerprint = ?"
    found = TABLE.find(db, end, organization_id, fingerprint)
    if found is None:
        raise NotFoundError(f"the credential {fingerprint!r} has no name")
    db.execute(f"delete from credential_names {end}", (organization_id, fingerprint))  # noqa: S608 - our own text
    return found
