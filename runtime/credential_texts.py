"""Texts that look like credentials, which are never stored.

The headers that are stored, run ids, users, projects and tags are names, which somebody may put a credential
in place of. Of those that hold what looks like one nothing is kept.
"""

import re

# A key or token of the upstream, a service API key of ours, or any token after its scheme.
_CREDENTIAL = re.compile(r"sk-ant-|sk_[A-Za-z0-9_-]{43}|bearer\s+\S", re.IGNORECASE)


def drop_credential(value: str | None) -> str | None:
    """Return a value that is to be stored, or None where it holds what looks like a credential."""
    if value is None:
        return None
    # A search that ignores case takes long, and nearly no value has what each credential begins with.
    if value.isascii():
        lower = value.lower()
        if "sk" not in lower and "bearer" not in lower:
            return value
    return None if _CREDENTIAL.search(value) else value
