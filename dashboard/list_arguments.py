"""Numbers in the query arguments of lists."""

import re
from collections.abc import Mapping

from runtime.errors import InvalidInputError
from store.pagination import DEFAULT_LIMIT, MAX_LIMIT

_NUMBER = re.compile(r"[0-9]{1,9}")


def parse_limit(arguments: Mapping[str, str]) -> int:
    """Return the argument ``limit``: the number of items on a page of a list. Raises InvalidInputError."""
    return parse_number(arguments, "limit", DEFAULT_LIMIT, MAX_LIMIT, f"between 1 and {MAX_LIMIT}")


def parse_number(
    arguments: Mapping[str, str], name: str, default: int, most: int, expected: str
) -> int:
    """Return the argument ``name``, a number from 1 to ``most``; ``default`` if it is missing.

    Raises InvalidInputError, whose message says that it must be ``expected``."""
    text = arguments.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        raise InvalidInputError(f"{name} must be {expected}", name)
    return int(text)
