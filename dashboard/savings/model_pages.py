"""``/savings/models``: the cost of the same calls with another model, as a page and as JSON."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages, rendering
from dashboard.call_route import CallRoute
from dashboard.home.names import name_filter
from dashboard.overview.filters import Filters, parse_filters
from dashboard.overview.periods import DEFAULT_SPAN, Period, list_segments, parse_span
from dashboard.rendering import PRIVATE
from dashboard.savings.model_documents import SavingsModels
from dashboard.savings.model_view import list_cheaper, make_columns, make_rows
from dashboard.savings.other_models import METHOD, OtherModels, compare_models, read_uses
from dashboard.savings.tab_figures import TabFigures, read_tab_figures
from dashboard.trace_work import TracePages
from runtime import clock
from store.control.people import Caller
from store.traces.sessions.session_reader import SessionReader

PATH = "/savings/models"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The comparison that an address names."""

    others: OtherModels
    period: Period
    filters: Filters
    title: str


class ModelPages(TracePages):
    """The costs of the caller's organisation with other models."""

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(PATH, self.page), CallRoute(f"{PATH}.json", self.json)]

    async def page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        return await self._respond(
            request,
            caller,
            lambda found, db: _render(
                caller, found, read_tab_figures(db, found.period.first, found.period.last)
            ),
        )

    async def json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        return await self._respond(
            request,
            caller,
            lambda found, _: json_pages.respond(
                SavingsModels.make(found.others, found.period, found.filters.values.get("session"))
            ),
        )

    async def _respond(
        self,
        request: Request,
        caller: Caller,
        respond: Callable[[_Found, sqlite3.Connection | None], Response],
    ) -> Response:
        """Return what is made of the comparison that an address names.

        Raises InvalidInputError, sqlite3.Error, and HTTPException where too many requests wait."""
        now = clock.now()
        period = parse_span(request.query_params.get("period") or DEFAULT_SPAN, now)
        filters = parse_filters(request.query_params)

        def run(connection: sqlite3.Connection | None) -> Response:
            uses = () if connection is None else read_uses(connection, period, filters)
            others = compare_models(uses, self._site.prices(), now)
            title = _find_title(connection, filters.values.get("session"))
            found = _Found(others=others, period=period, filters=filters, title=title)
            return respond(found, connection)

        return await self._work.run(caller, run)


def _render(caller: Caller, given: _Found, tabs: TabFigures) -> Response:
    found, period, filters = given.others, given.period, given.filters
    session = filters.values.get("session")
    columns = make_columns(found)
    return rendering.render(
        "savings_models.html",
        visitor=caller,
        headers=PRIVATE,
        found=found,
        period=period,
        session=session,
        columns=columns,
        tab_figures=tabs,
        rows=make_rows(found),
        calls=sum(each.use.calls for each in found.models),
        cheaper=list_cheaper(found, columns),
        title=given.title,
        method=METHOD,
        periods=list_segments(lambda span: _address(PATH, span, filters), period.span),
        chips=[
            (*name_filter(name, value, {}), _address(PATH, period.span, filters.without(name)))
            for name, value in filters.values.items()
        ],
        json_address=_address(f"{PATH}.json", period.span, filters),
    )


def _find_title(db: sqlite3.Connection | None, session_id: str | None) -> str:
    """Return the name of a session, by its id where it has no title. Raises sqlite3.Error."""
    if db is None or session_id is None:
        return ""
    reader = SessionReader(db)
    session = reader.find(session_id) if reader.is_ready else None
    return (session.title if session else None) or f"session {session_id}"


def _address(path: str, span: str, filters: Filters) -> str:
    return f"{path}?{urlencode([('period', span), *filters.as_arguments()], errors='replace')}"
