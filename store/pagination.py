"""Pages of a list, newest first, that stay correct while items are created and deleted.

A cursor holds the position of the last item of its page in the order of the list: time of creation,
then id. The next page begins after that position, whether or not the item still exists; so an item
that exists while all pages are read is returned exactly once. A cursor is opaque to callers. It
names its list, so that it cannot be used with another one."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.errors import InvalidCursorError, InvalidInputError

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

_CURSOR = re.compile(
    r"(?P<kind>[a-z_]+)"
    r"\|(?P<created_at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"
    r"\|(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    re.ASCII,
)


class Listed(Protocol):
    """The fields that every item of a list has."""

    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a list: after the item with this instant and id."""

    created_at: str
    id: str


# The position before all items, after which the first page begins.
START = Position("~", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page[T: Listed]:
    """A page of a list. ``next_cursor`` is None on the last page.

    ``previous_cursor`` is set only on request; it is None if the previous page is the first one."""

    items: Sequence[T]
    next_cursor: str | None
    previous_cursor: str | None = None
    is_first: bool = True

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


def read_page[T: Listed](
    kind: str,
    cursor: str | None,
    limit: int,
    read: Callable[[Position, int], Sequence[T]],
    *,
    finds_previous: bool = False,
) -> Page[T]:
    """Return one page of the list ``kind``.

    ``read(position, count)`` returns up to ``count`` items after a position, all if ``count`` is -1. Raises
    InvalidInputError if ``limit`` is out of bounds, InvalidCursorError."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInputError(f"limit must be between 1 and {MAX_LIMIT}", "limit")
    position = START if cursor is None else parse_cursor(kind, cursor)
    found = read(position, limit + 1)
    items = found[:limit]
    has_more = len(found) > limit
    previous = _find_previous(position, limit, read) if finds_previous and cursor else None
    return Page(
        items=items,
        next_cursor=format_cursor(kind, items[-1]) if has_more else None,
        previous_cursor=None if previous is None else format_cursor(kind, previous),
        is_first=cursor is None,
    )


def _find_previous[T: Listed](
    position: Position, limit: int, read: Callable[[Position, int], Sequence[T]]
) -> T | None:
    """Return the item after which the previous page begins, or None if that is the first page.

    All items before are read for this, since a caller has few endpoints or keys."""
    place = (position.created_at, position.id)
    before = [item for item in read(START, -1) if (item.created_at, item.id) >= place]
    return before[-limit - 1] if len(before) > limit else None


def format_cursor(kind: str, last: Listed) -> str:
    text = f"{kind}|{last.created_at}|{last.id}"
    return encode_cursor(text)


def parse_cursor(kind: str, cursor: str) -> Position:
    """Return the position of a cursor.

    Raises InvalidCursorError for text that ``format_cursor`` did not write for this kind of list."""
    match = _CURSOR.fullmatch(decode_cursor(cursor))
    if match is None or match["kind"] != kind:
        raise InvalidCursorError
    return Position(match["created_at"], match["id"])


def encode_cursor(text: str) -> str:
    """Return ``text`` as an opaque cursor."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> str:
    """Return the text in a cursor. Raises InvalidCursorError."""
    try:
        padding = "=" * (-len(cursor) % 4)
        text = base64.b64decode(cursor + padding, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidCursorError from error
    # The last character has unused bits, so that several cursors would decode to the same text.
    if encode_cursor(text) != cursor:
        raise InvalidCursorError
    return text
