"""``/settings``: endpoints, keys, members, and the visitor's organisations and sessions."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.mail.mailer import Mailer
from dashboard.settings import (
    budgets as budget_settings,
    endpoints as endpoint_settings,
    keys as key_settings,
    members as member_settings,
    retention as retention_settings,
)
from dashboard.settings.budgets import BudgetSettings
from dashboard.settings.endpoints import EndpointSettings
from dashboard.settings.keys import KeySettings
from dashboard.settings.members import MemberSettings
from dashboard.settings.memberships import MembershipPages
from dashboard.settings.retention import RetentionSettings
from dashboard.settings.view import PATH, SettingsView
from dashboard.visitors import ControlPool, Visitors
from runtime.settings import Settings

# A form's address may be loaded anew by hand, or be where somebody signs in and goes on.
_SECTIONS = {
    "budgets": budget_settings.SECTION,
    "endpoints": endpoint_settings.SECTION,
    "keys": key_settings.SECTION,
    "invitations": member_settings.SECTION,
    "members": member_settings.SECTION,
    "organization": "organizations",
    "retention": retention_settings.SECTION,
}


class SettingsPages:
    def __init__(
        self, settings: Settings, pool: ControlPool, visitors: Visitors, mailer: Mailer
    ) -> None:
        self._view = SettingsView(settings, pool, visitors, mailer)
        endpoints = EndpointSettings(self._view)
        self._parts = (
            endpoints,
            BudgetSettings(self._view, endpoints),
            RetentionSettings(self._view, endpoints),
            KeySettings(self._view),
            MemberSettings(self._view),
            MembershipPages(self._view),
        )

    def routes(self) -> list[BaseRoute]:
        return [
            Route(PATH, self.settings_page, methods=["GET"]),
            *(route for part in self._parts for route in part.routes()),
            Route(f"{PATH}/{{section}}", self.redirect_to_section, methods=["GET"]),
        ]

    async def settings_page(self, request: Request) -> Response:
        visitor = await self._view.visitors.require(request)
        return await self._view.render_page(request, visitor)

    async def redirect_to_section(self, request: Request) -> Response:
        section = request.path_params["section"]
        if section not in _SECTIONS:
            raise HTTPException(404)
        return rendering.redirect(f"{PATH}#{_SECTIONS[section]}")
