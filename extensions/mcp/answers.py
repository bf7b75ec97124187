"""Responses to agents: JSON of at most 20 rows and 8 KB, with a cursor and a note on what is left out.

A cursor is the number of rows shown of a page of the API, and the API's cursor of that page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

MAX_ROWS = 20
MAX_BYTES = 8_000
_ROOM = 200  # bytes, for the cursor and what was left out

type Rows = Sequence[Mapping[str, Any]]


class CursorError(Exception):
    """The cursor was not made by this server."""


@dataclass(frozen=True, slots=True)
class Place:
    """The position at which a response begins: after ``skipped`` rows of a page of the API."""

    skipped: int = 0
    page: str | None = None

    @classmethod
    def parse(cls, cursor: str | None) -> "Place":
        """Return the position in a cursor, the beginning for None. Raises CursorError."""
        if not cursor:
            return cls()
        skipped, _, page = cursor.partition(".")
        if not (skipped.isascii() and skipped.isdecimal() and len(skipped) < 9):
            raise CursorError("cursor must be the next_cursor of the response before")
        return cls(int(skipped), page or None)

    def format(self) -> str:
        """Return the position as a cursor."""
        return f"{self.skipped}.{self.page}" if self.page else str(self.skipped)


def answer(
    head: Mapping[str, Any], name: str, rows: Rows, place: Place, next_page: str | None = None
) -> str:
    """Return a response as JSON, with as many rows as fit. ``next_page`` is the API's next cursor."""
    shown: list[Mapping[str, Any]] = []
    size = len(orjson.dumps(head)) + _ROOM + len(next_page or "") + len(place.page or "")
    for row in rows[place.skipped : place.skipped + MAX_ROWS]:
        size += len(orjson.dumps(row)) + 1
        if size > MAX_BYTES and shown:
            break
        shown.append(row)
    end = place.skipped + len(shown)
    left = max(len(rows) - end, 0)
    document = {**head, name: shown}
    if left:
        document |= {"next_cursor": Place(end, place.page).format(), "left_out": left}
    elif next_page:
        document |= {"next_cursor": Place(0, next_page).format(), "left_out": "more"}
    return orjson.dumps(document).decode()
