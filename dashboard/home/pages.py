"""``/``: today's usage, the newest calls, the server status, and how to connect a client."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import notices, rendering
from dashboard.home.chart import make_bars
from dashboard.home.overview import read_overview
from dashboard.pool import ControlPool
from dashboard.visitors import Visitors
from metering.formats import format_bytes
from runtime import clock
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.invitations import Invitation
from store.control.management import Management
from store.control.sessions import Visitor
from store.pagination import Page
from store.traces.paths import trace_path

ENDPOINTS = 5  # the others are in the settings


class HomePages:
    def __init__(self, settings: Settings, pool: ControlPool, visitors: Visitors) -> None:
        self._settings = settings
        self._pool = pool
        self._visitors = visitors

    def routes(self) -> list[BaseRoute]:
        return [Route("/", self.home_page)]

    async def home_page(self, request: Request) -> Response:
        visitor = await self._visitors.require(request)
        endpoints, invitations = await self._pool.run(lambda control: self._read(control, visitor))
        path = trace_path(self._settings.data_dir, visitor.organization_id)
        overview = await run_in_threadpool(read_overview, path, clock.now().date())
        return rendering.render(
            "home.html",
            visitor=visitor,
            notice=notices.find(request),
            settings=self._settings,
            endpoints=endpoints,
            invitations=invitations,
            overview=overview,
            bars=make_bars(overview.days),
            size=format_bytes(overview.size_bytes),
            recorder=await run_in_threadpool(Heartbeat.read, self._settings.data_dir),
        )

    def _read(
        self, control: ControlDatabase, visitor: Visitor
    ) -> tuple[Page[ProxyEndpoint], list[Invitation]]:
        management = Management.make(control, self._settings)
        return (
            management.list_endpoints(visitor, limit=ENDPOINTS),
            list(management.list_invitations_for(visitor.email)),
        )
