"""Cursors of lists of traces: an item's place as text that is opaque to callers."""

from collections.abc import Iterable

import orjson

from runtime.errors import InvalidCursorError
from store.pagination import decode_cursor, encode_cursor


def format_cursor(place: Iterable[str | int]) -> str:
    """Return the cursor for the page that begins after a place."""
    return encode_cursor(orjson.dumps([*place]).decode())


def parse_cursor[Part: (str, int)](cursor: str, kind: type[Part]) -> tuple[Part, Part]:
    """Return the place of a cursor: two values of type ``kind``. Raises InvalidCursorError."""
    try:
        place = orjson.loads(decode_cursor(cursor))
    except ValueError as error:
        raise InvalidCursorError from error
    if not isinstance(place, list) or len(place) != 2 or not all(type(e) is kind for e in place):
        raise InvalidCursorError
    return place[0], place[1]
