"""The choices in the address of a list of calls: filters, days, grouping, columns, place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from dashboard.addresses import CALLS, query_address
from dashboard.call_conditions import Condition
from dashboard.call_filters import PERIOD, SINCE, UNTIL, CallFilters, parse_call_filters
from dashboard.overview.periods import DEFAULT_SPAN, parse_span
from runtime.errors import InvalidInputError
from store.list_cursors import format_cursor, parse_cursor
from store.traces.calls.listed_calls import Place
from store.traces.sums.overview_query import COLUMNS as SUMMED
from store.traces.sums.requested_models import find_requested

ALL = "all"
PERIODS = ("today", "7d", "30d", "90d", ALL)
BY_SESSION = "session"
# Columns that may be chosen, with their headings; those of a list that nobody has chosen for come first.
COLUMNS: Mapping[str, str] = {
    "model": "Model",
    "in": "Tokens in, cached",
    "out": "Out",
    "cost": "Cost",
    "duration": "Duration",
    "first_byte": "First byte",
    "endpoint": "Endpoint",
    "credential": "Credential",
    "stop": "Stop reason",
    "request_id": "Request id",
    "tags": "Tags",
}
DEFAULT_COLUMNS = ("model", "in", "out", "cost", "duration")
COOKIE = "calls_columns"
_COLUMN, _BY, _CURSOR = "col", "by", "cursor"
_FAILED = "failed"
_NARROWED = ("session", SINCE, UNTIL)  # by these a list is short without days of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choices in the address of a list of calls. ``period`` is as it was given, "" for none.
    ``before``: the page begins with the calls older than this place."""

    filters: CallFilters
    period: str
    by_session: bool = False
    columns: tuple[str, ...] = ()
    before: Place | None = None

    def address(self, **changes: object) -> str:
        """Return the address with changed fields (``changes``), beginning with the first page."""
        changed = replace(self, before=None, **changes)  # type: ignore[arg-type]
        return _write(changed.arguments())

    def behind(self, place: Place) -> str:
        """Return the address of the page that begins after the call at ``place``."""
        return _write([*self.arguments(), (_CURSOR, format_cursor([place[0], str(place[1])]))])

    def with_filters(self, filters: CallFilters) -> str:
        """Return the address with other filters and the same period."""
        return self.address(filters=filters.in_period(self.filters.period))

    def in_period(self, period: str, now: datetime) -> str:
        """Return the address with another period. ``now`` has the time zone of the organisation."""
        days = None if period == ALL else parse_span(period, now, PERIOD)
        return self.address(filters=self.filters.in_period(days), period=period)

    def arguments(self, *, with_columns: bool = True) -> list[tuple[str, str]]:
        """Return the query parameters of the list's address, without the cursor of a page."""
        given = [each for each in self.filters.as_arguments() if each[0] != PERIOD]
        days = [(PERIOD, self.period)] if self.period else []
        by = [(_BY, BY_SESSION)] if self.by_session else []
        columns = [(_COLUMN, column) for column in self.columns] if with_columns else []
        return [*days, *given, *by, *columns]

    @property
    def title(self) -> str:
        """Return the period in words."""
        return "All days" if self.filters.period is None else self.filters.period.title

    @property
    def sql(self) -> str:
        """Return the SQL query of the list, for people to read and edit."""
        return f"select * from usage{self.filters.condition().where} order by created_at desc"  # noqa: S608 - only shown

    @property
    def sql_address(self) -> str:
        return query_address(self.sql)

    @property
    def condition(self) -> Condition:
        return self.filters.condition("u.")

    @property
    def only_failed(self) -> bool:
        """Return whether the list is restricted to failed calls."""
        return _FAILED in self.filters.values

    def summed_filters(self) -> dict[str, str] | None:
        """Return the filters by name, None if the tables of sums cannot be filtered by them.

        The filter for failed calls is left out, since each sum also counts its failed calls."""
        found = {}
        for name, values in self.filters.without(_FAILED).values.items():
            is_one = len(values) == 1 and bool(values[0])
            if name not in SUMMED or not is_one or find_requested(values[0]) is not None:
                return None
            found[name] = values[0]
        return found


def parse_choice(arguments: QueryParams, cookie: str, now: datetime) -> Choice:
    """Parse the choices in an address. Raises InvalidInputError, InvalidCursorError.

    ``cookie`` has the columns that were chosen last, for an address without columns."""
    given = arguments.multi_items()
    named = arguments.get(PERIOD, "")
    period = named or ("" if any(arguments.get(name) for name in _NARROWED) else DEFAULT_SPAN)
    filters = parse_call_filters([each for each in given if each[0] != PERIOD], now)
    days = parse_span(period, now, PERIOD) if period not in ("", ALL) else None
    return Choice(
        filters=filters.in_period(days),
        period=period,
        by_session=arguments.get(_BY) == BY_SESSION,
        columns=tuple(name for name in arguments.getlist(_COLUMN) if name in COLUMNS)
        or read_cookie(cookie),
        before=_parse_place(arguments.get(_CURSOR)),
    )


def read_cookie(text: str) -> tuple[str, ...]:
    """Return the columns that a cookie names, in their usual order; the default columns if it names none."""
    names = text.split(".")
    return tuple(name for name in COLUMNS if name in names) or DEFAULT_COLUMNS


def _parse_place(cursor: str | None) -> Place | None:
    if not cursor:
        return None
    created_at, usage_id = parse_cursor(cursor, str)
    if not usage_id.isdigit():
        raise InvalidInputError("cursor must be one of this list", _CURSOR)
    return created_at, int(usage_id)


def _write(arguments: Sequence[tuple[str, str]]) -> str:
    return f"{CALLS}?{urlencode(arguments, errors='replace')}" if arguments else CALLS
