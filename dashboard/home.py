"""``/``: what came in today, and how to connect a client."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import pages
from dashboard.pool import ControlPool
from dashboard.visitors import Visitors
from store.heartbeat import Heartbeat
from store.settings import Settings


class Home:
    def __init__(self, settings: Settings, pool: ControlPool, visitors: Visitors) -> None:
        self._settings = settings
        self._pool = pool
        self._visitors = visitors

    def routes(self) -> list[BaseRoute]:
        return [Route("/", self.show)]

    async def show(self, request: Request) -> Response:
        visitor = await self._visitors.require(request)
        endpoints = await self._pool.run(
            lambda control: control.list_endpoints(visitor.organization_id)
        )
        return pages.show(
            "home.html",
            visitor=visitor,
            settings=self._settings,
            endpoints=endpoints,
            recorder=_describe(Heartbeat.read(self._settings.data_dir)),
        )


def _describe(heartbeat: Heartbeat | None) -> str:
    if heartbeat is None or not heartbeat.is_fresh:
        return "not running; calls wait in the spool"
    if heartbeat.stuck_organizations:
        return f"running; {heartbeat.waiting} calls wait for a database that cannot be written"
    return f"running; {heartbeat.waiting} calls wait to be stored"
