"""``/settings/members`` and ``/settings/invitations``: the members of the organisation.

The link of an invitation signs in as the invited address. So it is sent to that address only, and never
displayed to the member who invites.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import notices, rendering
from dashboard.mail.mailer import MailError
from dashboard.mail.texts import invitation_mail
from dashboard.settings.people import PAGE
from dashboard.settings.view import (
    PATH,
    PEOPLE,
    Problem,
    Reading,
    Sent,
    SettingsPage,
    SettingsView,
)
from metering.formats import format_wait
from runtime.attempts import AttemptLimit
from runtime.email_addresses import parse_email
from runtime.errors import ControlError, ForbiddenError, NotFoundError
from store.control.database import ControlDatabase
from store.control.invitations import Invitation
from store.control.management import Management
from store.control.people import Member
from store.control.sessions import Visitor
from store.control.sign_in import SignIn

FORM = "invite"
MAILS_PER_ORGANIZATION = 20
MAILS_PER_MAILBOX = 3
_HOUR_S = 3600.0

logger = logging.getLogger(__name__)


def _read_member(reading: Reading) -> Mapping[str, Any]:
    """Return the member to be removed. Raises ForbiddenError, NotFoundError."""
    if not reading.is_owner and reading.id != reading.visitor.user_id:
        raise ForbiddenError("only an owner of the organisation may remove somebody else")
    return {"member": reading.management.get_member(reading.visitor, reading.id)}


INVITE_PAGE = SettingsPage(
    part=PEOPLE, path="people/invite", template="settings_invite.html", is_for_owners=True
)
REMOVE_PAGE = SettingsPage(
    part=PEOPLE,
    path="members/{id}/remove",
    template="settings_remove_member.html",
    read=_read_member,
)


def _take_back(management: Management, sent: Sent) -> None:
    management.take_back_invitation(sent.visitor, sent.id)


class TooManyMailsError(Exception):
    """Raised if too many invitations were mailed; another may be sent after ``wait_s`` seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(
            "Too many invitations were mailed; this one was not sent."
            f" Try again in {format_wait(wait_s)}."
        )
        self.wait_s = wait_s


class MemberSettings:
    """The forms for invitations and members. ``clock_s`` is a monotonic clock."""

    def __init__(self, view: SettingsView, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._view = view
        self._clock_s = clock_s
        self._by_mailbox = AttemptLimit(MAILS_PER_MAILBOX, _HOUR_S)
        self._by_organization = AttemptLimit(MAILS_PER_ORGANIZATION, _HOUR_S)

    def routes(self) -> list[BaseRoute]:
        return [
            self._view.route(INVITE_PAGE),
            Route(f"{PATH}/invitations", self.invite, methods=["POST"]),
            Route(f"{PATH}/invitations/{{id}}/send", self.resend, methods=["POST"]),
            self._view.form(
                "invitations/{id}/take-back", _take_back, PAGE, "invitation-taken-back"
            ),
            self._view.route(REMOVE_PAGE),
            self._view.form(REMOVE_PAGE.path, _remove, PAGE, _lead_on),
        ]

    async def invite(self, request: Request) -> Response:
        sent = await self._view.read_form(request)
        return await self._mail(request, sent, INVITE_PAGE, FORM, _read_address)

    async def resend(self, request: Request) -> Response:
        """Send an invitation again, which renews it for another week."""
        sent = await self._view.read_form(request)
        return await self._mail(request, sent, PAGE, "", self._find_invited)

    async def _mail(
        self,
        request: Request,
        sent: Sent,
        page: SettingsPage,
        form: str,
        find: Callable[[Sent], Awaitable[str]],
    ) -> Response:
        """Invite the address that ``find`` returns, and return the response to the form."""
        try:
            code = await self._invite(sent.visitor, await find(sent))
        except ControlError as error:
            return await self._view.refuse(request, sent, error, page, form)
        except TooManyMailsError as error:
            problem = Problem(message=str(error), form=form, input="email", values=sent.fields)
            headers = {"retry-after": str(error.wait_s)}
            return await self._view.render(request, sent.visitor, page, problem, 429, headers)
        return rendering.redirect(notices.address(PEOPLE.address, code))

    async def _invite(self, visitor: Visitor, address: str) -> str:
        """Invite an email address and return the code of the notice. Raises ControlError,
        TooManyMailsError."""
        if visitor.role != "owner":
            raise ForbiddenError("only an owner of the organisation may invite somebody")
        email = parse_email(address)
        can_send = self._view.mailer.can_send
        if can_send:
            self._count_mail(visitor, email)
        invitation, link = await self._view.pool.run(
            lambda control: self._make(control, visitor, email, with_link=can_send)
        )
        if link is None:
            return "invitation-waits"
        try:
            await self._view.mailer.send(email, *invitation_mail(invitation, link))
        except MailError as error:
            return _note_not_sent(error)
        return "invitation-printed" if self._view.mailer.prints else "invitation-sent"

    def _make(
        self, control: ControlDatabase, visitor: Visitor, email: str, *, with_link: bool
    ) -> tuple[Invitation, str | None]:
        invitation = self._view.manage(control).invite(visitor, email)
        if not with_link:
            return invitation, None
        token = SignIn(control).make_invitation_link(invitation)
        return invitation, self._view.settings.link_url(token)

    def _count_mail(self, visitor: Visitor, email: str) -> None:
        """Count a mail to an address, by mailbox and organisation. Raises TooManyMailsError."""
        now_s = self._clock_s()
        wait_s = self._by_mailbox.count(email, now_s) or self._by_organization.count(
            visitor.organization_id, now_s
        )
        if wait_s:
            raise TooManyMailsError(wait_s)

    async def _find_invited(self, sent: Sent) -> str:
        """Return the email address of an invitation. Raises ForbiddenError if the visitor is not an owner,
        NotFoundError."""
        invitations = await self._view.pool.run(
            lambda control: self._view.manage(control).list_invitations(sent.visitor)
        )
        for invitation in invitations:
            if invitation.id == sent.id:
                return invitation.email
        raise NotFoundError("this invitation has been accepted, declined or withdrawn")


async def _read_address(sent: Sent) -> str:
    return sent.fields.get("email", "")


def _remove(management: Management, sent: Sent) -> Member:
    return management.remove_member(sent.visitor, sent.id)


async def _lead_on(sent: Sent, removed: Member) -> Response:
    """Return a redirect to the people page, or to sign-in for visitors who removed themselves."""
    if removed.id == sent.visitor.user_id:
        return rendering.redirect("/sign-in")
    return rendering.redirect(notices.address(PEOPLE.address, "member-removed"))


def _note_not_sent(error: MailError) -> str:
    logger.error("An invitation was not sent: %s", error)
    return "invitation-not-sent"
