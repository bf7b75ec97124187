"""``/savings/models``: the cost of the same calls with another model, as a page and as JSON."""

import sqlite3
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages
from dashboard.call_route import CallRoute
from dashboard.kept_connections import KeptConnections
from dashboard.overview.filters import Filters, parse_filters
from dashboard.overview.periods import DEFAULT_SPAN, Period, parse_span
from dashboard.prices import PagePrices
from dashboard.savings.model_documents import SavingsModels
from dashboard.savings.other_models import OtherModels, compare_models, read_uses
from dashboard.trace_work import TracePages
from dashboard.visitors import Visitors
from runtime import clock
from runtime.settings import Settings
from store.control.people import Caller

PATH = "/savings/models"


class ModelPages(TracePages):
    """The costs of the caller's organisation with other models."""

    def __init__(
        self,
        settings: Settings,
        visitors: Visitors,
        connections: KeptConnections,
        prices: PagePrices,
    ) -> None:
        super().__init__(settings, visitors, connections)
        self._prices = prices

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(f"{PATH}.json", self.json)]

    async def json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        return await self._respond(
            request,
            caller,
            lambda found, period, filters: json_pages.respond(
                SavingsModels.make(found, period, filters.values.get("session"))
            ),
        )

    async def _respond(
        self,
        request: Request,
        caller: Caller,
        respond: Callable[[OtherModels, Period, Filters], Response],
    ) -> Response:
        """Return what is made of the comparison that an address names.

        Raises InvalidInputError, sqlite3.Error, and HTTPException where too many requests wait."""
        now = clock.now()
        period = parse_span(request.query_params.get("period") or DEFAULT_SPAN, now)
        filters = parse_filters(request.query_params)

        def run(connection: sqlite3.Connection | None) -> Response:
            uses = () if connection is None else read_uses(connection, period, filters)
            return respond(compare_models(uses, self._prices(), now), period, filters)

        return await self._work.run(caller, run)
