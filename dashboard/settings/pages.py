"""``/settings``: the pages about endpoints, budgets, data, people and keys, security."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.mail.mailer import Mailer
from dashboard.settings import people, security
from dashboard.settings.alerts import AlertSettings
from dashboard.settings.budgets import BudgetSettings
from dashboard.settings.endpoints import EndpointSettings
from dashboard.settings.keys import KeySettings
from dashboard.settings.members import MemberSettings
from dashboard.settings.memberships import MembershipPages
from dashboard.settings.retention import RetentionSettings
from dashboard.settings.view import DATA, ENDPOINTS, PATH, PEOPLE, SettingsView
from dashboard.site import Site
from dashboard.visitors import ControlPool

# A form's address may be loaded anew by hand, or be where somebody signs in and goes on.
_PARTS = {
    "invitations": PEOPLE,
    "keys": PEOPLE,
    "members": PEOPLE,
    "organization": PEOPLE,
    "retention": DATA,
}


class SettingsPages:
    def __init__(self, site: Site, pool: ControlPool, mailer: Mailer) -> None:
        self._view = SettingsView(site, pool, mailer)
        self._forms = (
            EndpointSettings(self._view),
            BudgetSettings(self._view),
            AlertSettings(self._view),
            RetentionSettings(self._view),
            KeySettings(self._view),
            MemberSettings(self._view),
            MembershipPages(self._view),
        )

    def routes(self) -> list[BaseRoute]:
        return [
            Route(PATH, self.redirect_to_first, methods=["GET"]),
            self._view.route(people.PAGE),
            self._view.route(security.PAGE),
            *(route for each in self._forms for route in each.routes()),
            Route(f"{PATH}/{{section}}", self.redirect_to_part, methods=["GET"]),
        ]

    async def redirect_to_first(self, request: Request) -> Response:
        """Redirect to the endpoints. Browsers keep the fragment of older addresses, and a script follows
        it."""
        await self._view.visitors.require(request)
        query = f"?{request.url.query}" if request.url.query else ""
        return rendering.redirect(f"{ENDPOINTS.address}{query}")

    async def redirect_to_part(self, request: Request) -> Response:
        part = _PARTS.get(request.path_params["section"])
        if part is None:
            raise HTTPException(404)
        return rendering.redirect(part.address)
