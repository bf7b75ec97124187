"""Suggestions of the name that a mistyped one may stand for."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_CHARS = 100  # of a name that is compared: comparing takes time by the square of it


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a note that names the known ones near ``name``, or an empty text.

    It is in parentheses, with a space before it."""
    near = [repr(each) for each in find_near(name, known)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def find_near(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of the known names that are near ``name``, the nearest first."""
    return [] if len(name) > MAX_CHARS else get_close_matches(name, known)
