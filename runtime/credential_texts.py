"""Texts that look like credentials, which are never stored.

Stored headers, run ids, users, projects and tags are names, but somebody may put a credential there. A
value that holds what looks like one is dropped."""

import re

# A key or token of the upstream, a service API key of ours, or any token after its scheme.
_CREDENTIAL = re.compile(r"sk-ant-|sk_[A-Za-z0-9_-]{43}|bearer\s+\S", re.IGNORECASE)


def drop_credential(value: str | None) -> str | None:
    """Return a value to be stored, or None if it holds what looks like a credential."""
    if value is None:
        return None
    # A search that ignores case takes long, and nearly no value has what each credential begins with.
    if value.isascii():
        lower = value.lower()
        if "sk" not in lower and "bearer" not in lower:
            return value
    return None if _CREDENTIAL.search(value) else value
