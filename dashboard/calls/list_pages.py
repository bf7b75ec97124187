"""``/calls``: the list of calls, one line each, by session or in one list."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import rendering
from dashboard.addresses import CALLS
from dashboard.call_route import CallRoute
from dashboard.calls.choice import (
    ALL,
    COLUMNS,
    COOKIE,
    DEFAULT_COLUMNS,
    PERIODS,
    Choice,
    parse_choice,
)
from dashboard.calls.lines import Group, Line, group_lines, make_lines
from dashboard.moments import find_zone
from dashboard.nothing_recorded import NothingRecorded
from dashboard.overview.periods import SPAN_TITLES
from dashboard.rendering import PRIVATE
from dashboard.site import Site
from dashboard.trace_work import TracePages
from metering.credential_names import name_credential
from runtime import clock
from store.database import list_columns
from store.traces.annotations import count_labels
from store.traces.calls.bounded_counts import count_chosen, count_in_table, find_first_id
from store.traces.calls.listed_calls import Chosen, ListedCalls, list_calls, read_sessions
from store.traces.calls.tool_uses import read_uses_of
from store.traces.sums.call_counts import CallCounts, count_calls
from store.traces.sums.overview_query import Query, format_hour

PAGE_LIMIT = 100
_MENU = {"model": "Model", "endpoint": "Endpoint", "credential": "Credential", "client": "Client"}
_MAX_VALUES = 6  # of a column in the menu of filters
_FAILED = "failed"
# The filters that are used most: value, and words. An index has the calls that cost so many dollars.
_PRESETS = {
    _FAILED: ("1", "Failed"),
    "tool_failed": ("1", "A tool failed"),
    "cache_break": ("1", "Broke the cache"),
    "cost": ("0.10", "$0.10 or more"),
}
# Where the calls of some of them have rows, and which.
_ROWS = {
    "tool_failed": ("tool_uses", "t.problem is not null"),
    "cache_break": ("cache_breaks", "true"),
}
_YEAR_S = 365 * 24 * 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link to a list, with its number of calls, None if unknown. ``is_here``: the page shows this list
    already."""

    words: str
    address: str
    count: int | None = None
    is_here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page of the list. ``counts`` are those of all chosen calls, None if all calls would have to be
    read for them; ``failed`` is set if only failed calls are chosen. ``presets`` and ``menu`` are links
    that add a filter, ``drops`` links that remove one if nothing was found; ``older`` is the address of
    the next page, None on the last."""

    lines: Sequence[Line] = ()
    groups: Sequence[Group] = ()
    counts: CallCounts | None = None
    failed: int | None = None
    presets: Sequence[Link] = ()
    menu: Sequence[tuple[str, Sequence[Link]]] = ()
    drops: Sequence[Link] = ()
    older: str | None = None


class CallListPages(TracePages):
    """The list of calls of the caller's organisation."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._nothing_recorded = NothingRecorded(site)

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(CALLS, self.list_page)]

    async def list_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        if self._nothing_recorded.applies_to(caller):
            return await self._nothing_recorded.render(request, caller, "Calls", "calls")
        now = clock.now()
        choice = parse_choice(request.query_params, request.cookies.get(COOKIE, ""), now)
        here = now.astimezone(find_zone(caller.time_zone))
        names = await self._visitors.read_credential_names(caller)
        listed = await self._work.run(caller, lambda db: read_list(db, choice, here, names))
        is_first = choice.before is None
        flights = await self._site.spool.read(caller.organization_id) if is_first else None
        response = rendering.render(
            "calls.html",
            visitor=caller,
            headers=PRIVATE,
            choice=choice,
            listed=listed,
            flights=flights.calls if flights and not choice.filters.values else (),
            periods=list_periods(choice, now),
            columns=COLUMNS,
            name_credential=lambda fingerprint: name_credential(fingerprint, names),
            is_first=is_first,
        )
        if "col" in request.query_params:
            value = ".".join(choice.columns)
            is_usual = choice.columns == DEFAULT_COLUMNS
            response.set_cookie(
                COOKIE, value, 0 if is_usual else _YEAR_S, path=CALLS, httponly=True, samesite="lax"
            )
        return response


def list_periods(choice: Choice, now: datetime) -> list[Link]:
    """Return links to the list for each period, with the present one marked."""
    return [
        Link(
            words=SPAN_TITLES.get(period, "All days"),
            address=choice.in_period(period, now),
            is_here=period == choice.period,
        )
        for period in PERIODS
    ]


def read_list(
    db: sqlite3.Connection | None, choice: Choice, now: datetime, names: Mapping[str, str]
) -> Listed:
    """Return a page of the list. ``names`` maps fingerprints of credentials to names. Raises
    sqlite3.Error."""
    if db is None or not list_columns(db, "usage"):
        return Listed()
    condition = choice.condition
    found = list_calls(db, Chosen(*condition), choice.before, PAGE_LIMIT)
    uses = read_uses_of(db, [row["id"] for row in found.rows])
    lines = make_lines(found.rows, uses, now)
    counts = _count(db, choice)
    return Listed(
        lines=lines,
        groups=_group(db, lines) if choice.by_session else (),
        counts=None if choice.only_failed else counts,
        failed=counts.failed if counts and choice.only_failed else None,
        presets=_list_presets(db, choice, counts),
        menu=_list_menu(db, choice, names),
        drops=() if lines else _list_drops(db, choice, names, now),
        older=_find_older(choice, found),
    )


def _find_older(choice: Choice, found: ListedCalls) -> str | None:
    """Return the address of the page with older calls, None if the period has no older calls."""
    if found.behind is None:
        return None
    period = choice.filters.period
    first = "" if period is None else period.elapsed.start.isoformat()[:10]
    return choice.behind(found.behind) if found.behind[0] >= first else None


def _group(db: sqlite3.Connection, lines: Sequence[Line]) -> list[Group]:
    names = dict.fromkeys(line.row["session"] for line in lines if line.row["session"])
    return group_lines(lines, read_sessions(db, list(names)))


def _query(choice: Choice, filters: dict[str, str], by: str | None = None) -> Query | None:
    period = choice.filters.period
    if period is None:
        return None
    interval = period.elapsed
    return Query(start=interval.start, end=interval.end, filters=filters, by=by)


def _count(db: sqlite3.Connection, choice: Choice) -> CallCounts | None:
    """Return the counts of all chosen calls, None if the tables of sums do not have them."""
    filters = choice.summed_filters()
    query = _query(choice, filters or {})
    if filters is None or query is None or not list_columns(db, "usage_daily"):
        return None
    return count_calls(db, query).get("", CallCounts())


def _list_presets(db: sqlite3.Connection, choice: Choice, counts: CallCounts | None) -> list[Link]:
    """Return links for the most used filters, without those that are chosen already or match no call."""
    presets = [name for name in _PRESETS if name not in choice.filters.values]
    numbers: dict[str, int | None] = {} if counts is None else {_FAILED: counts.failed}
    numbers |= _count_presets(db, choice, [name for name in presets if name not in numbers])
    return [
        Link(
            words=_PRESETS[name][1],
            address=choice.with_filters(choice.filters.only(name, _PRESETS[name][0])),
            count=numbers[name],
        )
        for name in presets
        if numbers[name] != 0
    ]


def _count_presets(
    db: sqlite3.Connection, choice: Choice, names: Sequence[str]
) -> dict[str, int | None]:
    """Return the number of calls that each preset would match, None if counting takes too long."""
    first_id, between = None, None
    if not choice.filters.values and choice.filters.period is not None:
        elapsed = choice.filters.period.elapsed
        between = format_hour(elapsed.start), format_hour(elapsed.end)
        first_id = find_first_id(db, *between)
    numbers: dict[str, int | None] = {}
    for name in names:
        if between is None or name not in _ROWS:
            chosen = choice.filters.only(name, _PRESETS[name][0]).condition("u.")
            numbers[name] = count_chosen(db, Chosen(*chosen))
        else:
            numbers[name] = (
                None if first_id is None else count_in_table(db, *_ROWS[name], between, first_id)
            )
    return numbers


def _list_drops(
    db: sqlite3.Connection, choice: Choice, names: Mapping[str, str], now: datetime
) -> list[Link]:
    """Return links to lists with one filter less, and to the list of all days. Lists that are known to be
    empty are left out."""
    links = []
    for chip in choice.filters.chips():
        words = name_credential(chip.words, names) if chip.name == "credential" else chip.words
        fewer = replace(choice, filters=choice.filters.without(chip.name))
        counts = _count(db, fewer)
        count = None if counts is None else counts.failed if fewer.only_failed else counts.calls
        if count != 0:
            name = f"{chip.title} {words}".strip()
            links.append(Link(words=f"Without “{name}”", address=fewer.address(), count=count))
    if choice.filters.values and choice.period != ALL:
        links.append(Link(words="On all days", address=choice.in_period(ALL, now)))
    return links


def _list_menu(
    db: sqlite3.Connection, choice: Choice, names: Mapping[str, str]
) -> list[tuple[str, Sequence[Link]]]:
    """Return the menu of filters: for each column its most frequent values, as links with numbers of
    calls."""
    if choice.period == ALL or not list_columns(db, "usage_daily"):
        return []
    menu: list[tuple[str, Sequence[Link]]] = []
    for name, title in _MENU.items():
        query = _query(choice, {}, name)
        if query is None or name in choice.filters.values:
            continue
        links = [
            Link(
                words=name_credential(value, names) if name == "credential" else value,
                address=choice.with_filters(choice.filters.only(name, value)),
                count=counts.calls,
            )
            for value, counts in list(count_calls(db, query).items())[:_MAX_VALUES]
            if value
        ]
        if len(links) > 1:
            menu.append((title, links))
    return [*menu, *_list_labels(db, choice)]


def _list_labels(db: sqlite3.Connection, choice: Choice) -> list[tuple[str, Sequence[Link]]]:
    """Return the most frequent labels of sessions and calls as a part of the menu of filters."""
    if "label" in choice.filters.values or not list_columns(db, "labels"):
        return []
    links = [
        Link(words=label, address=choice.with_filters(choice.filters.only("label", label)))
        for label, _ in count_labels(db, _MAX_VALUES)
    ]
    return [("Label", links)] if links else []
