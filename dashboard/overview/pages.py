"""``/overview``: what a period cost, with charts, as a page for people and as JSON for programs."""

import sqlite3
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages, rendering
from dashboard.call_route import CallRoute
from dashboard.kept_connections import KeptConnections
from dashboard.nothing_recorded import NothingRecorded
from dashboard.overview import chart, figures
from dashboard.overview.documents import Overview as OverviewDocument
from dashboard.overview.drawings import PATH, draw, overview_address
from dashboard.overview.filters import NAMES, NONE, FilterName, Name, calls_address, parse_filters
from dashboard.overview.periods import DEFAULT_SPAN, SPAN_TITLES, parse_span
from dashboard.overview.reading import Overview, empty, read_overview
from dashboard.rendering import PRIVATE
from dashboard.trace_work import TracePages
from dashboard.visitors import Visitors
from runtime import clock
from runtime.errors import InvalidInputError
from runtime.settings import Settings
from store.control.people import Caller
from store.traces.sums.forecast import METHOD
from store.traces.sums.histograms import RESOLUTION


class OverviewPages(TracePages):
    """The overview of the caller's organisation."""

    def __init__(
        self, settings: Settings, visitors: Visitors, connections: KeptConnections
    ) -> None:
        super().__init__(settings, visitors, connections)
        self._nothing_recorded = NothingRecorded(settings, visitors)

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(PATH, self.page), CallRoute(f"{PATH}.json", self.json)]

    async def page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        if self._nothing_recorded.applies_to(caller):
            return await self._nothing_recorded.render(request, caller, "Overview", "overview")
        return await self._respond(request, caller, _render)

    async def json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        return await self._respond(
            request, caller, lambda _, found: json_pages.respond(OverviewDocument.make(found))
        )

    async def _respond(
        self, request: Request, caller: Caller, respond: Callable[[Caller, Overview], Response]
    ) -> Response:
        """Return what is made in a thread of the caller's organisation.

        Raises InvalidInputError, sqlite3.Error, and HTTPException where too many requests wait."""
        now = clock.now()
        period = parse_span(_find_span(request), now)
        filters, by = parse_filters(request.query_params), _parse_by(request)

        def run(connection: sqlite3.Connection | None) -> Response:
            if connection is None:
                return respond(caller, empty(period, filters, by))
            return respond(caller, read_overview(connection, period, filters, by, now))

        return await self._work.run(caller, run)


def _render(caller: Caller, overview: Overview) -> Response:
    period, filters, by = overview.period, overview.filters, overview.by
    elapsed = period.elapsed

    def calls(**others: str) -> str | None:
        address = calls_address(filters, elapsed.start, elapsed.end)
        return address and "&".join([address, *(f"{key}={value}" for key, value in others.items())])

    return rendering.render(
        "overview.html",
        visitor=caller,
        headers=PRIVATE,
        overview=overview,
        totals=overview.totals,
        figures=figures.make_figures(overview, calls),
        month=figures.make_month(overview.month),
        method=METHOD,
        resolution=f"{RESOLUTION:.1%}",
        groups=figures.make_groups(overview),
        measures=list(figures.MEASURES.values()) if overview.group_percentiles else [],
        drawings=draw(overview),
        frame=chart,
        spans=[
            (title, overview_address(span, filters, by), span == period.span)
            for span, title in SPAN_TITLES.items()
        ],
        choices=[
            (name, overview_address(period.span, filters, name), name == by) for name in NAMES
        ],
        conditions=[
            (
                name,
                _name_value(name, value),
                overview_address(period.span, filters.without(name), by),
            )
            for name, value in filters.values.items()
        ],
        arguments=filters.as_arguments(),
        unnamed=NONE,
        calls_address=calls(),
        json_address=overview_address(period.span, filters, by).replace(PATH, f"{PATH}.json", 1),
    )


def _name_value(name: FilterName, value: str) -> str:
    return value or ("main" if name == "agent" else "none")


def _find_span(request: Request) -> str:
    """Return the span of the address, also as a form sends it: with two days."""
    arguments = request.query_params
    first, last = arguments.get("from"), arguments.get("to")
    if first and last:
        return f"{first}..{last}"
    return arguments.get("span") or DEFAULT_SPAN


def _parse_by(request: Request) -> Name:
    """Return what the charts are stacked by. Raises InvalidInputError."""
    text = request.query_params.get("by") or "model"
    for name in NAMES:
        if text == name:
            return name
    raise InvalidInputError(f"by must be one of {', '.join(NAMES)}", "by")
