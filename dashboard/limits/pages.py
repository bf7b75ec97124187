"""``/limits.json``: the unused part of each window of the organisation's subscriptions."""

import sqlite3

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages
from dashboard.call_route import CallRoute
from dashboard.trace_work import TracePages
from runtime import clock
from store.control.people import Caller
from store.traces.calls.limit_model import Limits
from store.traces.calls.limit_readings import read_states


class LimitPages(TracePages):
    """The page about the limits of the subscriptions that the caller's organisation uses."""

    def routes(self) -> list[BaseRoute]:
        return [CallRoute("/limits.json", self.limits_json)]

    async def limits_json(self, request: Request) -> Response:
        def respond(_: Caller, db: sqlite3.Connection | None) -> Response:
            states = [] if db is None else read_states(db, clock.now())
            return json_pages.respond(Limits.make(states))

        return await self._answer(request, respond)
