"""Names of credentials and agents, for the API and the command line.

It is a part of ``store.control.management``. Every member may read them; only owners change them.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from metering.credential_names import KnownCredentials, spread_names
from store.control import credential_names
from store.control.audited import audited, require_owner
from store.control.credential_names import CredentialName, Kind
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.traces.calls.credential_accounts import read_accounts_of
from store.traces.paths import trace_path


@dataclass(frozen=True, slots=True)
class NameManagement:
    """The names in ``control.db``. ``subject`` is the fingerprint of a credential or the id of an agent.

    Every method may also raise sqlite3.Error."""

    _control: ControlDatabase
    _data_dir: Path

    def list(self, caller: Caller, kind: Kind = "credential") -> Sequence[CredentialName]:
        """Return the names that the caller's organisation has given, sorted by name."""
        with self._control.reading() as db:
            return credential_names.list_of(db, caller.organization_id, kind)

    def put(
        self, caller: Caller, subject: str, name: str, kind: Kind = "credential"
    ) -> CredentialName:
        """Name a credential or an agent, in place of an earlier name.

        ``subject`` may also be the account of a subscription. Raises ForbiddenError for a caller who is
        not an owner, InvalidInputError, LimitReachedError."""
        noun = credential_names.NOUNS[kind]
        require_owner(caller, f"name {noun.words}")
        with audited(self._control, caller) as (db, note):
            named = credential_names.write(db, caller.organization_id, subject, name, kind)
            note(noun.named, subject, {"name": named.name})
            return named

    def delete(self, caller: Caller, subject: str, kind: Kind = "credential") -> None:
        """Remove a name. Raises ForbiddenError for a caller who is not an owner, NotFoundError."""
        noun = credential_names.NOUNS[kind]
        require_owner(caller, f"remove the name of {noun.words}")
        with audited(self._control, caller) as (db, note):
            found = credential_names.delete(db, caller.organization_id, subject, kind)
            note(noun.unnamed, subject, {"name": found.name})

    def find_accounts(self, caller: Caller) -> Mapping[str, str]:
        """Return the account of each credential by its fingerprint, {} if the traces cannot be read."""
        try:
            return read_accounts_of(trace_path(self._data_dir, caller.organization_id))
        except sqlite3.Error:
            return {}

    def find_credentials(self, caller: Caller) -> KnownCredentials:
        """Return the names and accounts of credentials, both by fingerprint."""
        accounts = self.find_accounts(caller)
        with self._control.reading() as db:
            names = credential_names.read_names(db, caller.organization_id)
        return KnownCredentials(spread_names(names, accounts), accounts)
