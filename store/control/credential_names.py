"""Names that people give to credentials, subscriptions and agents: rows of ``credential_names``.

Credentials and subscriptions are identified by fingerprints, agents by their ids. The credential
itself is stored nowhere. The fingerprint of a subscription, called the account in ``/limits.json``,
stays the same when its tokens are renewed."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from store.control.audit import Activity
from store.control.names import check_name
from store.control.records import Id, Instant, Line, Shared, Table

type Kind = Literal["credential", "agent"]

MAX_NAMES = 1_000  # of an organisation
_FINGERPRINT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

NAMED = Activity("credential.name", "named the credential")
UNNAMED = Activity("credential.unname", "removed the name of the credential")
AGENT_NAMED = Activity("agent.name", "named the agent")
AGENT_UNNAMED = Activity("agent.unname", "removed the name of the agent")


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of thing that can be named. ``words`` is its noun with the article, ``by`` is what identifies
    it.

    ``named`` and ``unnamed`` are the kinds of entries of the activity log."""

    words: str
    by: str
    named: Activity
    unnamed: Activity


NOUNS: Mapping[Kind, Noun] = {
    "credential": Noun("a credential", "its fingerprint", NAMED, UNNAMED),
    "agent": Noun("an agent", "its id", AGENT_NAMED, AGENT_UNNAMED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialName:
    """The name of a credential or subscription with a fingerprint, or of an agent with an id."""

    organization_id: Id
    fingerprint: Id
    name: Line
    created_at: Instant
    kind: Kind = "credential"


TABLE = Table(
    "credential_names", CredentialName, shared=Shared(key=("organization_id", "fingerprint"))
)


def list_of(
    db: sqlite3.Connection, organization_id: str, kind: Kind = "credential"
) -> Sequence[CredentialName]:
    """Return the names that an organisation has given, sorted by name."""
    return TABLE.read(
        db,
        "where organization_id = ? and kind = ? order by name, fingerprint",
        organization_id,
        kind,
    )


def read_names(
    db: sqlite3.Connection, organization_id: str, kind: Kind = "credential"
) -> Mapping[str, str]:
    """Return the names that an organisation has given to credentials or agents.

    The keys are fingerprints of credentials, or ids of agents."""
    return {each.fingerprint: each.name for each in list_of(db, organization_id, kind)}


def write(
    db: sqlite3.Connection,
    organization_id: str,
    fingerprint: str,
    name: str,
    kind: Kind = "credential",
) -> CredentialName:
    """Store the name of a credential or an agent, in place of an earlier one.

    Raises InvalidInputError, LimitReachedError."""
    noun = NOUNS[kind]
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise InvalidInputError(
            f"{noun.words} is named by {noun.by}, which `taximeter usage --by {kind}` shows",
            "fingerprint",
        )
    found = CredentialName(
        organization_id=organization_id,
        fingerprint=fingerprint,
        name=check_name(name, noun.words),
        created_at=clock.format_ms(clock.now()),
        kind=kind,
    )
    (others,) = db.execute(
        "select count(*) from credential_names where organization_id = ? and fingerprint <> ?",
        (organization_id, fingerprint),
    ).fetchone()
    if others >= MAX_NAMES:
        raise LimitReachedError(
            f"an organisation gives at most {format_count(MAX_NAMES)} names; delete one"
        )
    TABLE.insert(db, found, key="organization_id, fingerprint")
    return found


def delete(
    db: sqlite3.Connection, organization_id: str, fingerprint: str, kind: Kind = "credential"
) -> CredentialName:
    """Delete the name of a credential or an agent. Raises NotFoundError."""
    query = (
        "where organization_id = ? and fingerprint = ? and kind = ?",
        organization_id,
        fingerprint,
        kind,
    )
    found = TABLE.find(db, *query)
    if found is None:
        raise NotFoundError(f"the {kind} {fingerprint!r} has no name")
    TABLE.delete(db, *query)
    return found
