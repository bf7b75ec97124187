"""The visitor's own memberships: joining and switching organisations, declining invitations."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import notices, rendering
from dashboard.settings.people import PAGE
from dashboard.settings.view import PATH, PEOPLE, SettingsView
from dashboard.visitors import cookie_name
from runtime.errors import NotFoundError
from store.control.sign_in import SignIn

_GONE = "This invitation was accepted, declined or withdrawn, or it has expired."


class MembershipPages:
    def __init__(self, view: SettingsView) -> None:
        self._view = view
        self._cookie = cookie_name(view.settings.base_url)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/invitations/{id}/join", self.join, methods=["POST"]),
            Route("/invitations/{id}/decline", self.decline, methods=["POST"]),
            Route(f"{PATH}/organization", self.switch, methods=["POST"]),
        ]

    async def join(self, request: Request) -> Response:
        sent = await self._view.read_form(request)
        session = request.cookies[self._cookie]
        try:
            await self._view.pool.run(
                lambda control: SignIn(control).accept_invitation(session, sent.id)
            )
        except NotFoundError as error:
            raise HTTPException(404, _GONE) from error
        return rendering.redirect(notices.address("/", "joined"))

    async def decline(self, request: Request) -> Response:
        sent = await self._view.read_form(request)
        email = sent.visitor.email
        if email is None:  # the local user, whom nobody can invite
            raise HTTPException(404, _GONE)
        try:
            await self._view.pool.run(
                lambda control: self._view.manage(control).decline_invitation(email, sent.id)
            )
        except NotFoundError as error:
            raise HTTPException(404, _GONE) from error
        return rendering.redirect(notices.address("/", "invitation-declined"))

    async def switch(self, request: Request) -> Response:
        sent = await self._view.read_form(request)
        session, id_ = request.cookies[self._cookie], sent.fields.get("organization_id", "")
        try:
            await self._view.pool.run(
                lambda control: SignIn(control).switch_organization(session, id_)
            )
        except NotFoundError as error:
            return await self._view.refuse(request, sent, error, PAGE)
        return rendering.redirect(notices.address(PEOPLE.address, "organization-switched"))
