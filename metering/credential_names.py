"""The label of a credential or a subscription on pages: its name, or its fingerprint."""

from collections.abc import Mapping
from typing import NamedTuple

SHOWN_CHARS = 8
NO_CREDENTIAL = "no credential"
# What stands in sums for the credentials that have no rows of their own.
OTHER = "(other)"


class KnownCredentials(NamedTuple):
    """Names and accounts by the fingerprints of credentials. ``names`` also has those of accounts."""

    names: Mapping[str, str]
    accounts: Mapping[str, str]


NOTHING_KNOWN = KnownCredentials({}, {})


def spread_names(names: Mapping[str, str], accounts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names of fingerprints, extended to their accounts and to other fingerprints of these.

    ``accounts`` are by the fingerprint of a credential. A fingerprint keeps its own name. If several
    fingerprints of an account have names, the one that comes last in ``accounts`` gives its name to the
    others."""
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
    """Return the name of a credential, or the beginning of its fingerprint if it has no name.

    The fingerprint contains no character of the credential. ``names`` are by fingerprint."""
    if not fingerprint:
        return NO_CREDENTIAL
    if fingerprint == OTHER:
        return OTHER
    return names.get(fingerprint) or fingerprint[:SHOWN_CHARS]
