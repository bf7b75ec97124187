"""Pages of the list of sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runtime import clock
from store.list_cursors import format_cursor, parse_cursor
from store.traces.sessions.session_reader import EVERY_SESSION, Session, SessionReader

# Of calls so many are looked at for a page that few sessions are on: some tenths of a second at most.
SEARCHED = 50_000
COST_DAYS = 7  # of the sessions that are listed by cost, today among them

type Place = tuple[str, str]  # ``ended_at`` and ``session_id`` of a session


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """A choice of sessions: those that ended at ``since`` or later, of one slug. None is any."""

    since: str | None = None
    slug: str | None = None

    def make_condition(self) -> tuple[str, Sequence[str]]:
        """Return an SQL condition on rows of ``sessions``, with the values of its placeholders."""
        wanted = {"ended_at >= ?": self.since, "slug = ?": self.slug}
        given = {sql: value for sql, value in wanted.items() if value is not None}
        return " and ".join(("true", *given)), tuple(given.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page of the list of sessions."""

    sessions: list[Session]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        """Return whether there is a next page."""
        return self.next_cursor is not None


def begin_week(now: datetime) -> datetime:
    """Return the first midnight (UTC) of the days whose sessions are listed by cost."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=COST_DAYS - 1)


def list_page(
    reader: SessionReader | None,
    limit: int,
    cursor: str | None,
    *,
    by_cost: bool,
    where: tuple[str, Sequence[str | float]] = EVERY_SESSION,
    since: str | None = None,
    is_walk: bool = False,
) -> Listed:
    """Return a page of the list of sessions, newest first.

    With ``by_cost`` it has the most expensive sessions that ended at ``since`` or later, or in the last
    week. ``where`` is an SQL condition with the values of its placeholders. ``is_walk``: the condition
    reads calls, so the page ends after the sessions with the newest ``SEARCHED`` calls. Raises
    InvalidCursorError, sqlite3.Error."""
    before: Place | None = None if cursor is None else parse_cursor(cursor, str)
    if reader is None:
        return Listed(sessions=[], next_cursor=None)
    if by_cost:
        since = since or clock.format_ms(begin_week(clock.now()))
        return Listed(sessions=reader.list_most_expensive(since, limit, where), next_cursor=None)
    end = reader.find_end(SEARCHED, before) if is_walk else None
    found = reader.list_sessions(limit + 1, before, where, end)
    sessions = found[:limit]
    if len(found) > limit:
        end = sessions[-1].ended_at, sessions[-1].session_id
    return Listed(sessions=sessions, next_cursor=None if end is None else format_cursor(end))
