"""Slugs: their syntax, and how one is made from a name."""

import re
import secrets

from slugify import slugify

MAX_LENGTH = 63
PATTERN = "[a-z0-9]+(?:-[a-z0-9]+)*"
_SUFFIX_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that looks like something else
_SLUG = re.compile(PATTERN)


def is_slug(text: str) -> bool:
    """Return whether the text is 1 to 63 characters of ``[a-z0-9]`` with single hyphens inside."""
    return len(text) <= MAX_LENGTH and _SLUG.fullmatch(text) is not None


def make_slug(name: str) -> str:
    """Transliterate a name: ``Café #1`` gives ``cafe-1``. A name without a letter or digit that
    can be transliterated gives ``endpoint``."""
    return slugify(name, max_length=MAX_LENGTH) or "endpoint"


def add_suffix(slug: str) -> str:
    """Return the slug with a short random suffix, for when the plain one is taken."""
    suffix = "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(4))
    return f"{slug[: MAX_LENGTH - 5].rstrip('-')}-{suffix}"
