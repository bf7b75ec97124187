"""The accounts that fingerprints of credentials belong to: rows of ``credential_accounts``.

The token of a subscription is renewed every few hours, and each token has another fingerprint. The
account that the client names, within an organisation of the upstream, stays the same
(``metering.limit_windows``). A row is written when a response states the limits of an account, and
is kept when its calls are removed, like their sums."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from metering.entry import UsageLogEntry
from store.database import list_columns, open_readonly

MAX_FINGERPRINTS = 10_000  # a client that names another account with each call makes no more rows
READ_TIMEOUT_S = 1.0
# The fingerprints of the person whom one of them, or the account, belongs to.
OF_PERSON = (
    "select :credential union select fingerprint from credential_accounts"
    " where account in (:credential,"
    " (select account from credential_accounts where fingerprint = :credential))"
)
_UPSERT = (
    "insert into credential_accounts (fingerprint, account, first_at, last_at) values (?, ?, ?, ?)"
    " on conflict (fingerprint) do update set account = iif(excluded.last_at >= last_at,"
    " excluded.account, account), first_at = min(first_at, excluded.first_at),"
    " last_at = max(last_at, excluded.last_at)"
)


def write_accounts(connection: sqlite3.Connection, entries: Iterable[UsageLogEntry]) -> None:
    """Store the accounts of the credentials of entries. The caller holds the write lock."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for entry in entries:
        limits = entry.rate_limits
        account = None if limits is None else limits.account
        # A client that names no account has its credential in its place.
        if account and entry.credential_hmac and account != entry.credential_hmac:
            key, at = (entry.credential_hmac, account), entry.created_at
            first_at, last_at = found.get(key, (at, at))
            found[key] = min(first_at, at), max(last_at, at)
    if not found:
        return
    (count,) = connection.execute("select count(*) from credential_accounts").fetchone()
    if count >= MAX_FINGERPRINTS:
        known = {fingerprint for (fingerprint,) in _list_known(connection, found)}
        found = {key: times for key, times in found.items() if key[0] in known}
    connection.executemany(_UPSERT, [(*key, *times) for key, times in found.items()])


def _list_known(
    connection: sqlite3.Connection, found: Iterable[tuple[str, str]]
) -> list[tuple[str]]:
    names = [fingerprint for fingerprint, _ in found]
    return connection.execute(
        "select fingerprint from credential_accounts"  # noqa: S608 - our own text
        f" where fingerprint in ({', '.join('?' * len(names))})",
        names,
    ).fetchall()


def read_accounts(connection: sqlite3.Connection) -> Mapping[str, str]:
    """Return the account of each fingerprint of a credential, the oldest first.

    Empty if the database has no such table yet. Raises sqlite3.Error."""
    if not list_columns(connection, "credential_accounts"):
        return {}
    return dict(
        connection.execute("select fingerprint, account from credential_accounts order by first_at")
    )


def read_accounts_of(path: Path) -> Mapping[str, str]:
    """Return the accounts in the trace database at ``path``, empty if there is none.

    See ``read_accounts``. Raises sqlite3.Error."""
    if not path.exists():
        return {}
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as connection:
        return read_accounts(connection)


def list_fingerprints(accounts: Mapping[str, str], credential: str) -> Sequence[str]:
    """Return all fingerprints of the account of ``credential``, itself a fingerprint or an account.

    Without a known account, this is ``credential`` alone."""
    account = accounts.get(credential, credential)
    own = [fingerprint for fingerprint, each in accounts.items() if each == account]
    return own or [credential]
