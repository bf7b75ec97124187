"""Suggestions of known names that are similar to a mistyped one."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_CHARS = 100  # of a name that is compared: comparing takes time by the square of it


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a note that suggests the known names similar to ``name``, or an empty text.

    It is in parentheses, with a space before it."""
    near = [repr(each) for each in find_near(name, known)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def find_near(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names similar to ``name``, the most similar first."""
    return [] if len(name) > MAX_CHARS else get_close_matches(name, known)
