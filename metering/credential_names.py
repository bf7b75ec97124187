"""The words for a credential or a subscription on pages: its name, or its fingerprint."""

from collections.abc import Mapping

SHOWN_CHARS = 8
NO_CREDENTIAL = "no credential"
# What stands in sums for the credentials that have no rows of their own.
OTHER = "(other)"


def name_credential(fingerprint: str | None, names: Mapping[str, str]) -> str:
    """Return the name of a credential, or the beginning of its fingerprint while it has none.

    The fingerprint holds no character of the credential. ``names`` are by fingerprint."""
    if not fingerprint:
        return NO_CREDENTIAL
    if fingerprint == OTHER:
        return OTHER
    return names.get(fingerprint) or fingerprint[:SHOWN_CHARS]
