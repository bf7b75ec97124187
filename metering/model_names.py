"""Reading names of models: ``claude-opus-4-6``, ``claude-4.6-opus``, ``claude-sonnet-5@20260101``."""

import re

# The number after 4- may be a date.
_VERSION = re.compile(r"^claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_SNAPSHOT = re.compile(r"[-@]\d{8}$|-latest$")


def find_version(model: str) -> tuple[int, int] | None:
    """Return the version in a model's name, such as (4, 6), or None."""
    found = _VERSION.match(model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def is_same_model(one: str | None, other: str | None) -> bool:
    """Return whether two names mean the same model, with or without the date of its snapshot."""
    if one is None or other is None:
        return False
    return one == other or _SNAPSHOT.sub("", one) == _SNAPSHOT.sub("", other)
