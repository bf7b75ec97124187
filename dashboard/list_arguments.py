"""Arguments of lists of traces: numbers, and cursors that stand for a place, opaque to callers."""

import re
from collections.abc import Iterable, Mapping

import orjson

from runtime.errors import InvalidCursorError, InvalidInputError
from store.pagination import DEFAULT_LIMIT, MAX_LIMIT, decode_cursor, encode_cursor

_NUMBER = re.compile(r"[0-9]{1,9}")


def format_cursor(place: Iterable[str | int]) -> str:
    """Return the cursor for the page of a list that begins behind a place."""
    return encode_cursor(orjson.dumps([*place]).decode())


def parse_cursor[Part: (str, int)](cursor: str, kind: type[Part]) -> tuple[Part, Part]:
    """Return the place that a cursor stands for, in two parts of a kind. Raises InvalidCursorError."""
    try:
        place = orjson.loads(decode_cursor(cursor))
    except ValueError as error:
        raise InvalidCursorError from error
    if not isinstance(place, list) or len(place) != 2 or not all(type(e) is kind for e in place):
        raise InvalidCursorError
    return place[0], place[1]


def parse_limit(arguments: Mapping[str, str]) -> int:
    """Return how many items a page of a list may have. Raises InvalidInputError."""
    return parse_number(arguments, "limit", DEFAULT_LIMIT, MAX_LIMIT, f"between 1 and {MAX_LIMIT}")


def parse_number(
    arguments: Mapping[str, str], name: str, default: int, most: int, expected: str
) -> int:
    """Return a number from 1 to ``most``. ``expected`` says what it must be. Raises InvalidInputError."""
    text = arguments.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        raise InvalidInputError(f"{name} must be {expected}", name)
    return int(text)
