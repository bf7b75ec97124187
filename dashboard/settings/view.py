"""The pages of the settings, and the common handling of their forms.

There are five parts, each a page with tables; each form has a page of its own. If a form has an error,
the response is its page with the error beside the field and the submitted values in it. If it succeeded,
the response is a redirect, so that reloading repeats nothing.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard import notices, rendering
from dashboard.forms import read_form
from dashboard.mail.mailer import Mailer
from dashboard.site import Site
from dashboard.visitors import ControlPool
from runtime.errors import (
    ControlError,
    InvalidCursorError,
    InvalidInputError,
    NotFoundError,
    as_sentence,
)
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.sessions import Visitor

PATH = "/settings"
_GONE = "It does not exist, or no longer exists. Nothing was changed."


@dataclass(frozen=True, slots=True)
class Part:
    """One of the five parts of the settings. ``name`` is its address below ``/settings``."""

    name: str
    title: str

    @property
    def address(self) -> str:
        return f"{PATH}/{self.name}"


ENDPOINTS = Part("endpoints", "Endpoints")
BUDGETS = Part("budgets", "Budgets & alerts")
DATA = Part("data", "Data")
PEOPLE = Part("people", "People & keys")
SECURITY = Part("security", "Security")
PARTS = (ENDPOINTS, BUDGETS, DATA, PEOPLE, SECURITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error of a form: the message, the name of the form, the name of the input field, and the
    submitted values."""

    message: str
    form: str = ""
    input: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The source of a page: ``control.db``, for a visitor, with the arguments of its address.

    ``id`` is the id in the address, such as that of an endpoint, or ""."""

    control: ControlDatabase
    management: Management
    visitor: Visitor
    query: Mapping[str, str]
    id: str

    @property
    def is_owner(self) -> bool:
        return self.visitor.role == "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A submitted form: its visitor, its fields, and the id in its address, or ""."""

    visitor: Visitor
    fields: Mapping[str, str]
    id: str


type Act[T] = Callable[[Management, Sent], T]
type Answer[T] = Callable[[Sent, T], Awaitable[Response]]


def _read_nothing(_reading: Reading) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage:
    """A page of a part: the page of the part itself, or that of a form. ``path`` is the address of a
    form's page below ``/settings``, in which ``{id}`` stands for the id of its subject. ``read`` returns
    template variables from ``control.db``; ``read_calls`` returns those from recorded calls, in another
    thread."""

    part: Part
    template: str
    path: str = ""
    is_for_owners: bool = False
    read: Callable[[Reading], Mapping[str, Any]] = _read_nothing
    read_calls: Callable[[Site, Visitor], Mapping[str, Any]] | None = None

    @property
    def address(self) -> str:
        return f"{PATH}/{self.path or self.part.name}"


class SettingsView:
    """Makes the pages of the settings, and handles their forms."""

    def __init__(self, site: Site, pool: ControlPool, mailer: Mailer) -> None:
        self.site = site
        self.settings = site.settings
        self.visitors = site.visitors
        self.pool = pool
        self.mailer = mailer

    def route(self, page: SettingsPage) -> Route:
        """Return the route of a page."""

        async def open_page(request: Request) -> Response:
            visitor = await self.visitors.require(request)
            if page.is_for_owners and visitor.role != "owner":
                raise HTTPException(403, "Only an owner of the organisation may do that.")
            return await self.render(request, visitor, page)

        return Route(page.address, open_page, methods=["GET"])

    def manage(self, control: ControlDatabase) -> Management:
        return Management.make(control, self.settings)

    def form[T](
        self,
        path: str,
        act: Act[T],
        page: SettingsPage,
        answer: str | Answer[T],
        *,
        name: str = "",
    ) -> Route:
        """Return the route of a form below ``/settings``, which ``act`` carries out in a thread.

        ``answer`` is the code of a notice to redirect with to the page's part, or a function that makes
        the response of the result of ``act``. If either raises ControlError, the response is ``page``
        with the error beside the field of the form ``name``."""

        async def submit(request: Request) -> Response:
            sent = await self.read_form(request)
            try:
                done = await self.pool.run(lambda control: act(self.manage(control), sent))
                if not isinstance(answer, str):
                    return await answer(sent, done)
            except ControlError as error:
                return await self.refuse(request, sent, error, page, name)
            return rendering.redirect(notices.address(page.part.address, answer))

        return Route(f"{PATH}/{path}", submit, methods=["POST"])

    async def read_form(self, request: Request) -> Sent:
        """Return a submitted form with its visitor. Raises HTTPException, NotSignedInError."""
        fields = await read_form(request, self.settings.base_url)
        visitor = await self.visitors.require(request)
        return Sent(visitor=visitor, fields=fields, id=request.path_params.get("id", ""))

    async def render(
        self,
        request: Request,
        visitor: Visitor,
        page: SettingsPage,
        problem: Problem | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a page of the settings. Raises HTTPException for an invalid cursor."""
        try:
            context = await self.pool.run(
                lambda control: page.read(
                    Reading(
                        control=control,
                        management=self.manage(control),
                        visitor=visitor,
                        query=request.query_params,
                        id=request.path_params.get("id", ""),
                    )
                )
            )
        except InvalidCursorError as error:
            raise HTTPException(400, "This page of the list does not exist.") from error
        calls: Mapping[str, Any] = {}
        if page.read_calls is not None:
            calls = await run_in_threadpool(page.read_calls, self.site, visitor)
        return self.show(
            visitor,
            page.part,
            page.template,
            status,
            headers=headers,
            notice=None if problem else notices.find(request),
            problem=problem,
            **context,
            **calls,
        )

    def show(
        self,
        visitor: Visitor,
        part: Part,
        template: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        notice: notices.Notice | None = None,
        problem: Problem | None = None,
        **context: Any,
    ) -> Response:
        """Return a page of a part, made from a template."""
        return rendering.render(
            template,
            visitor=visitor,
            status=status,
            headers=headers,
            parts=PARTS,
            part=part,
            settings=self.settings,
            mailer=self.mailer,
            notice=notice,
            problem=problem,
            **context,
        )

    async def refuse(
        self, request: Request, sent: Sent, error: ControlError, page: SettingsPage, form: str = ""
    ) -> Response:
        """Return the page with the error of a form, beside the field at fault if the error names it.

        Raises HTTPException for an invalid cursor, and if the visitor may not open the page."""
        message = as_sentence(str(error))
        if page.is_for_owners and sent.visitor.role != "owner":
            raise HTTPException(error.status, message)
        problem = Problem(
            message=_GONE if isinstance(error, NotFoundError) else message,
            form=form,
            input=error.field or "",
            values=sent.fields,
        )
        return await self.render(request, sent.visitor, page, problem, error.status)


def choose[Choice: str](choices: Iterable[Choice], fields: Mapping[str, str], name: str) -> Choice:
    """Return the choice in the field ``name`` of a form. Raises InvalidInputError."""
    for each in choices:
        if each == fields.get(name, ""):
            return each
    raise InvalidInputError(f"{name} is one of {', '.join(choices)}", name)
