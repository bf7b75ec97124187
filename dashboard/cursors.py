"""Places in the list of sessions, and the cursors that stand for them."""

import orjson

from runtime.errors import InvalidCursorError
from store.pagination import decode_cursor, encode_cursor

type Place = tuple[str, str]  # ``ended_at`` and ``session_id`` of a session


def format_cursor(place: Place) -> str:
    """Return the cursor for the page of the list that begins behind a place. It is opaque to callers."""
    return encode_cursor(orjson.dumps(place).decode())


def parse_cursor(cursor: str) -> Place:
    """Return the place that a cursor stands for. Raises InvalidCursorError."""
    try:
        place = orjson.loads(decode_cursor(cursor))
    except ValueError as error:
        raise InvalidCursorError from error
    if not isinstance(place, list) or len(place) != 2 or not all(isinstance(e, str) for e in place):
        raise InvalidCursorError
    return place[0], place[1]
