"""The page ``/settings``, and what its forms have in common.

The response to a form with an error is its page, the error beside the form and the submitted values in
it. To one that succeeded it is a redirect, so that reloading repeats nothing.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dashboard import notices, rendering
from dashboard.forms import read_form
from dashboard.mail.mailer import Mailer
from dashboard.visitors import ControlPool, Visitors
from runtime.errors import ControlError, InvalidCursorError, NotFoundError, as_sentence
from runtime.settings import Settings
from store.control import activity_log
from store.control.activity_log import AuditEntry
from store.control.api_keys import ApiKey
from store.control.budget_alerts import Delivery
from store.control.budget_management import BudgetStatus
from store.control.budgets import Webhook
from store.control.data_removal import RetentionState
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.invitations import Invitation
from store.control.management import Management
from store.control.people import Member, Organization
from store.control.sessions import Visitor
from store.control.sign_in import SignIn
from store.copies import Progress
from store.pagination import MAX_LIMIT, Page

PATH = "/settings"
AUDIT_ENTRIES = 100
_GONE = "It does not exist, or no longer exists. Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error of a form: the message, the id of the form, the name of the input at fault, and the
    submitted values."""

    message: str
    form: str = ""
    input: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsLists:
    """The lists on the page."""

    endpoints: Page[ProxyEndpoint]
    keys: Page[ApiKey]
    members: Sequence[Member]
    invitations: Sequence[Invitation]
    organizations: Sequence[Organization]
    sessions: int
    audit: Sequence[AuditEntry]
    budgets: Mapping[str, BudgetStatus]  # by the id of the endpoint or organisation
    time_zone: str
    webhook: Webhook | None
    deliveries: Sequence[Delivery]
    retention: RetentionState | None  # for owners
    erasures: Sequence[Progress]

    @property
    def owners(self) -> int:
        return sum(member.role == "owner" for member in self.members)


class SettingsView:
    """The page, and what all of its parts use."""

    def __init__(
        self, settings: Settings, pool: ControlPool, visitors: Visitors, mailer: Mailer
    ) -> None:
        self.settings = settings
        self.pool = pool
        self.visitors = visitors
        self.mailer = mailer

    def manage(self, control: ControlDatabase) -> Management:
        return Management.make(control, self.settings)

    async def read_form(self, request: Request) -> tuple[Visitor, Mapping[str, str]]:
        """Return the visitor who submits a form, and its fields. Raises HTTPException,
        NotSignedInError."""
        form = await read_form(request, self.settings.base_url)
        return await self.visitors.require(request), form

    async def render_page(
        self,
        request: Request,
        visitor: Visitor,
        problem: Problem | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the page. Raises HTTPException for an invalid cursor."""
        try:
            lists = await self.pool.run(lambda control: self._read(control, request, visitor))
        except InvalidCursorError as error:
            raise HTTPException(400, "This page of the list does not exist.") from error
        return rendering.render(
            "settings.html",
            visitor=visitor,
            status=status,
            headers=headers,
            settings=self.settings,
            mailer=self.mailer,
            lists=lists,
            notice=None if problem else notices.find(request),
            problem=problem,
            key_form_id=secrets.token_urlsafe(16),
        )

    async def refuse(
        self,
        request: Request,
        visitor: Visitor,
        error: ControlError,
        form: str = "",
        values: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the page with the error of a form. Raises HTTPException for an invalid cursor."""
        problem = explain(error, form, values)
        return await self.render_page(request, visitor, problem, error.status)

    def _read(self, control: ControlDatabase, request: Request, visitor: Visitor) -> SettingsLists:
        management, query = self.manage(control), request.query_params
        is_owner = visitor.role == "owner"
        with control.reading() as db:
            return SettingsLists(
                endpoints=management.list_endpoints(
                    visitor, query.get("endpoints"), MAX_LIMIT, finds_previous=True
                ),
                keys=management.list_keys(
                    visitor, query.get("keys"), MAX_LIMIT, finds_previous=True
                ),
                members=management.list_members(visitor),
                invitations=management.list_invitations(visitor) if is_owner else (),
                organizations=management.list_organizations(visitor),
                sessions=SignIn(control).count_sessions(visitor.user_id),
                audit=activity_log.read(db, visitor.organization_id, AUDIT_ENTRIES)
                if is_owner
                else (),
                budgets=management.budgets.list_by_subject(visitor),
                time_zone=management.budgets.get_time_zone(visitor),
                webhook=management.budgets.find_webhook(visitor) if is_owner else None,
                deliveries=management.budgets.list_deliveries(visitor) if is_owner else (),
                retention=management.removal.read_state(visitor) if is_owner else None,
                erasures=management.removal.list_erasures(visitor) if is_owner else (),
            )


def explain(
    error: ControlError, form: str = "", values: Mapping[str, str] | None = None
) -> Problem:
    """Return a problem for an error. ``form`` and ``values`` name the form and keep its submitted
    values."""
    message = _GONE if isinstance(error, NotFoundError) else as_sentence(str(error))
    return Problem(message=message, form=form, input=error.field or "", values=values or {})
