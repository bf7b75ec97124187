"""The arguments of a search, parsed from the query of an address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import urlencode

from dashboard.list_arguments import parse_limit
from dashboard.overview.filters import choose
from runtime import clock
from runtime.errors import InvalidInputError
from store.list_cursors import parse_cursor
from store.traces.search.filtering import Filter
from store.traces.search.index import ROLES
from store.traces.search.query import Query, parse_query
from store.traces.search.reader import Place
from store.traces.search.walk import Role

NAMES = ("since", "until", "endpoint", "model", "session", "role")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """A search. ``given`` has the arguments with a value, as they were written; ``place`` is where the
    page begins."""

    text: str
    query: Query
    only: Filter
    limit: int
    place: Place
    is_first: bool
    given: Mapping[str, str]

    def address(self, path: str, **changes: str) -> str:
        """Return the address of the search with changed arguments; those without a value are left out."""
        arguments = {"q": self.text, **self.given, **changes}
        return f"{path}?{urlencode({name: text for name, text in arguments.items() if text})}"


def parse_arguments(params: Mapping[str, str]) -> Arguments:
    """Parse the search in an address. Raises InvalidInputError, InvalidCursorError."""
    text = params.get("q", "").encode("utf-8", "replace").decode().strip()
    given = {name: params[name].strip() for name in NAMES if params.get(name, "").strip()}
    cursor = params.get("cursor")
    return Arguments(
        text=text,
        query=parse_query(text),
        only=Filter(
            since=_parse_instant(given, "since"),
            until=_parse_instant(given, "until", days=1),
            slug=given.get("endpoint"),
            model=given.get("model"),
            session_id=given.get("session"),
            role=_parse_role(given.get("role")),
        ),
        limit=parse_limit(params),
        place=Place() if cursor is None else _parse_place(cursor),
        is_first=cursor is None,
        given=given,
    )


def _parse_place(cursor: str) -> Place:
    """Parse a cursor. Raises InvalidCursorError."""
    return Place(*(min(max(each, 0), Place().piece_id) for each in parse_cursor(cursor, int)))


def _parse_instant(given: Mapping[str, str], name: str, days: int = 0) -> str | None:
    """Return the argument ``name`` in the format of stored times; None if it is missing.

    A day stands for its beginning, or for that of ``days`` days later. Raises InvalidInputError."""
    text = given.get(name)
    if text is None:
        return None
    try:
        if _DAY.fullmatch(text):
            return (date.fromisoformat(text) + timedelta(days=days)).isoformat()
        return clock.format_ms(clock.parse_instant(text))
    except (ValueError, OverflowError) as error:
        message = f"{name} is not a day or an instant: write 2026-01-31 or 2026-01-31T14:00:00Z"
        raise InvalidInputError(message, name) from error


def _parse_role(text: str | None) -> Role | None:
    return None if text is None else choose(ROLES, text, "role")
