"""``/help/costs``: what the recorded cost includes, and what it does not. The text is
``docs/costs.md``.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.visitors import Visitors


class HelpPages:
    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors

    def routes(self) -> list[BaseRoute]:
        return [Route("/help/costs", self.costs_page)]

    async def costs_page(self, request: Request) -> Response:
        visitor = await self._visitors.require(request)
        return rendering.render("help_costs.html", visitor=visitor)
