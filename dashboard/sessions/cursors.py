"""Places in the list of sessions, and the cursors that stand for them."""

import base64
import binascii

import orjson

from runtime.errors import InvalidCursorError

type Place = tuple[str, str]  # ``ended_at`` and ``session_id`` of a session


def format_cursor(place: Place) -> str:
    """Return the cursor for the page of the list that begins behind a place. It is opaque to callers."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def parse_cursor(cursor: str) -> Place:
    """Return the place that a cursor stands for. Raises InvalidCursorError."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = orjson.loads(text)
    except (ValueError, binascii.Error) as error:
        raise InvalidCursorError from error
    if not isinstance(place, list) or len(place) != 2 or not all(isinstance(e, str) for e in place):
        raise InvalidCursorError
    return place[0], place[1]
