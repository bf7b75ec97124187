"""The words for a credential or a subscription on pages: its name, or its fingerprint."""

from collections.abc import Mapping
from typing import NamedTuple

SHOWN_CHARS = 8
NO_CREDENTIAL = "no credential"
# What stands in sums for the credentials that have no rows of their own.
OTHER = "(other)"


class KnownCredentials(NamedTuple):
    """Names and accounts by the fingerprints of credentials; names are those of accounts too."""

    names: Mapping[str, str]
    accounts: Mapping[str, str]


NOTHING_KNOWN = KnownCredentials({}, {})


def spread_names(names: Mapping[str, str], accounts: Mapping[str, str]) -> Mapping[str, str]:
    """Return names also for the other fingerprints of an account, and for the account.

    ``accounts`` are by the fingerprint of a credential. A name that a fingerprint has itself stays; of
    several of an account, the one that comes last in ``accounts`` gives its name to the others."""
    of_account = {
        account: names[fingerprint]
        for fingerprint, account in accounts.items()
        if fingerprint in names
    }
    of_account |= {account: names[account] for account in accounts.values() if account in names}
    others = {
        fingerprint: of_account[account]
        for fingerprint, account in accounts.items()
        if account in of_account
    }
    return {**of_account, **others, **names}


def name_credential(fingerprint: str | None, names: Mapping[str, str]) -> str:
    """Return the name of a credential, or the beginning of its fingerprint while it has none.

    The fingerprint holds no character of the credential. ``names`` are by fingerprint."""
    if not fingerprint:
        return NO_CREDENTIAL
    if fingerprint == OTHER:
        return OTHER
    return names.get(fingerprint) or fingerprint[:SHOWN_CHARS]
