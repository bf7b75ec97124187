"""``/overview.json``: the sums of a period for programs. ``/overview`` redirects to the home page."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from dashboard import json_pages
from dashboard.addresses import HOME
from dashboard.call_route import CallRoute
from dashboard.overview.filters import NAMES, choose, parse_filters
from dashboard.overview.periods import DEFAULT_SPAN, parse_span
from dashboard.overview.reading import read_overview
from dashboard.trace_work import TracePages
from runtime import clock

PATH = "/overview"
_RENAMED = {"span": "period"}


class OverviewPages(TracePages):
    """The overview of the caller's organisation, as JSON."""

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(PATH, _go_home), CallRoute(f"{PATH}.json", self.json)]

    async def json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        now = clock.now()
        arguments = request.query_params
        period = parse_span(arguments.get("span") or DEFAULT_SPAN, now)
        filters, by = parse_filters(arguments), choose(NAMES, arguments.get("by") or "model", "by")

        return await self._work.run(
            caller, lambda db: json_pages.respond(read_overview(db, period, filters, by, now))
        )


async def _go_home(request: Request) -> Response:
    """Redirect to the home page, which replaced this page, with the same choices."""
    arguments = [
        (_RENAMED.get(name, name), value) for name, value in request.query_params.multi_items()
    ]
    address = f"{HOME}?{urlencode(arguments, errors='replace')}" if arguments else HOME
    return RedirectResponse(address, 301)
