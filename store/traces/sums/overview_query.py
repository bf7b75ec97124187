"""The query of an overview and its result: sums and timings of a period, by step and group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from store.traces.sums.sum_columns import Sums
from store.traces.sums.timings import Timing

DAY = timedelta(days=1)
# The columns that groups and filters have in the sums; in calls also those of agents and of what clients say.
COLUMNS = {
    "endpoint": "slug",
    "model": "model",
    "client": "client",
    "credential": "credential_hmac",
    "billing": "billing",
}
AGENT_COLUMNS = {"session": "session_id", "agent": "agent_id"}
SAID_COLUMNS = {"user": "attributed_user", "project": "project"}
ALL_COLUMNS = COLUMNS | AGENT_COLUMNS | SAID_COLUMNS
# A filter that is no group: a call has several tags. Its value is a whole tag, ``key:value`` or a name.
TAG = "tag"
# By which hourly sums are not kept, so that under such a filter calls are read.
OF_CALLS = AGENT_COLUMNS.keys() | SAID_COLUMNS.keys() | {TAG}

# The name of a step (an hour or a day as text) and of a group.
type Cell = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The part of the sums to read. ``by`` is the name of a group, None for a single group.

    ``hourly``: the steps are hours, otherwise days."""

    start: datetime
    end: datetime
    filters: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    hourly: bool = False


@dataclass(slots=True)
class Found:
    """Sums by step and group, and timings by group.

    For sessions and agents, ``cells`` has the largest, and ``rest`` the sums of all others by step. If
    reading calls took too long, only those from ``back_to`` on are included."""

    cells: dict[Cell, Sums] = field(default_factory=dict)
    rest: dict[str, Sums] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    back_to: datetime | None = None


def format_hour(instant: datetime) -> str:
    """Return an instant in the stored form of hours: ``2026-01-31T09``."""
    return instant.isoformat()[:13]


def parse_hour(hour: str) -> datetime:
    """Return the first instant of a stored hour."""
    return datetime.fromisoformat(f"{hour}:00").replace(tzinfo=UTC)


def is_value(name: str, column: str, mark: str) -> str:
    """Return an SQL condition: ``column`` has the value of the filter ``name``, given by placeholder
    ``mark``.

    A credential may also be given by its account, which all its tokens share."""
    if name != "credential":
        return f"{column} = {mark}"
    account = f"(select account from credential_accounts where fingerprint = {column})"  # noqa: S608
    return f"{mark} in ({column}, {account})"


def write_filters(filters: Mapping[str, str], columns: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return SQL conditions (beginning with "and") for filters, and the values of their placeholders."""
    conditions = "".join(f" and {is_value(name, columns[name], '?')}" for name in filters)
    return conditions, list(filters.values())


class Stretch(NamedTuple):
    """A part of a period: the table that has its sums, the column of their time, and its bounds."""

    table: str
    at: str
    start: str
    end: str


def divide(query: Query) -> Iterator[Stretch]:
    """Split a period into days, hours and the rest at both ends; yield each with its table of sums.

    Days are used only if the steps are not hours."""
    start, end = query.start, query.end
    if query.hourly:
        yield _of_hours(start, end)
        return
    first = start if start.hour == 0 else start.replace(hour=0) + DAY  # the first whole day
    last = end.replace(hour=0)
    if first >= last:
        yield _of_hours(start, end)
        return
    if start < first:
        yield _of_hours(start, first)
    yield Stretch("usage_daily", "day", format_hour(first)[:10], format_hour(last)[:10])
    if last < end:
        yield _of_hours(last, end)


def _of_hours(start: datetime, end: datetime) -> Stretch:
    return Stretch("usage_hourly", "hour", format_hour(start), format_hour(end))
