"""``/savings/models``: the cost of the same calls with another model, as a page and as JSON."""

import sqlite3
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
    """The comparison for the period and filters of an address. ``title`` names the session, if one is
    chosen."""

    others: OtherModels
    period: Period
    filters: Filters
    title: str


class ModelPages(TracePages):
    """The pages that compare the costs of the caller's organisation with those of other models."""

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(PATH, self.page), CallRoute(f"{PATH}.json", self.json)]

    async def page(self, request: Request) -> Response:
        def respond(caller: Caller, db: sqlite3.Connection | None) -> Response:
            found = self._find(request, db)
            tabs = read_tab_figures(db, found.period.first, found.period.last)
            return _render(caller, found, tabs)

        return await self._answer(request, respond)

    async def json(self, request: Request) -> Response:
        def respond(_: Caller, db: sqlite3.Connection | None) -> Response:
            found = self._find(request, db)
            session = found.filters.values.get("session")
            return json_pages.respond(SavingsModels.make(found.others, found.period, session))

        return await self._answer(request, respond)

    def _find(self, request: Request, db: sqlite3.Connection | None) -> _Found:
        """Return the comparison for the period and filters of an address.

        Raises InvalidInputError, sqlite3.Error."""
        now = clock.now()
        period = parse_span(request.query_params.get("period") or DEFAULT_SPAN, now)
        filters = parse_filters(request.query_params)
        uses = () if db is None else read_uses(db, period, filters)
        return _Found(
            others=compare_models(uses, self._site.prices(), now),
            period=period,
            filters=filters,
            title=_find_title(db, filters.values.get("session")),
        )


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
    """Return the title of a session, else its id, "" if none is chosen. Raises sqlite3.Error."""
    if db is None or session_id is None:
        return ""
    reader = SessionReader(db)
    session = reader.find(session_id) if reader.is_ready else None
    return (session.title if session else None) or f"session {session_id}"


def _address(path: str, span: str, filters: Filters) -> str:
    return f"{path}?{urlencode([('period', span), *filters.as_arguments()], errors='replace')}"
