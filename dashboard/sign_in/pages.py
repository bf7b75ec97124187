"""``/sign-in`` and ``/sign-out``: the beginning and end of a session.

A session begins by a link in a mail, or through GitHub or Google (``dashboard.sign_in.providers``). Only
in ``taximeter demo``, a button signs in anybody who is at this machine. The session cookie is opaque,
HttpOnly, and ``__Host-`` under https. The response reveals nothing about an address: the page is the
same, and takes the same time, whether or not the address is known, accepts mail, or was sent too much of
it.
"""

import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.addresses import HOME, local_path, sign_in_address
from dashboard.forms import read_form
from dashboard.mail.mailer import Mailer, MailError
from dashboard.mail.texts import sign_in_mail
from dashboard.sign_in.flow_cookie import FlowCookie
from dashboard.sign_in.provider import Provider, ProviderError
from dashboard.visitors import ControlPool, Visitors, cookie_name, find_client
from metering.formats import format_wait
from runtime.attempts import NETWORK_PREFIX, AttemptLimit, client_network
from runtime.email_addresses import parse_email
from runtime.errors import InvalidInputError, SignUpRefusedError, as_sentence
from runtime.local_requests import is_local_request
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.sessions import SESSION_LIFE
from store.control.sign_in import Origin, SignIn

MAIL_WINDOW_S = 15 * 60.0

_USED_LINK = "This link was already used or has expired. Request a new one here."
_TOO_MANY_MAILS = "there were as many in 15 minutes as TAXIMETER_SIGN_IN_MAILS allows in total"
_ONLY_HERE = "The demo is opened at the machine that runs it. A link that its terminal prints works elsewhere."
_MAIL_IS_OFF = "This service sends no mail. Sign in another way."
# The token is in the address of these pages. With no-referrer a browser would not say either whose
# page its form is on (see dashboard/forms.py).
_HIDDEN = {"referrer-policy": "strict-origin", "x-robots-tag": "noindex"}

logger = logging.getLogger(__name__)


class SignInPages:
    """The pages and forms for signing in and out. ``clock_s`` is a monotonic clock.

    ``is_demo``: anybody at this machine may sign in as the local user, since all data are examples."""

    def __init__(
        self,
        settings: Settings,
        pool: ControlPool,
        visitors: Visitors,
        mailer: Mailer,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        is_demo: bool = False,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._visitors = visitors
        self._mailer = mailer
        self._clock_s = clock_s
        self._providers = _find_providers(settings)
        self._is_demo = is_demo
        limits = settings.sign_in_mails
        self._by_client = AttemptLimit(limits.client, MAIL_WINDOW_S)
        self._by_network = AttemptLimit(limits.network, MAIL_WINDOW_S)
        self._by_mailbox = AttemptLimit(limits.mailbox, MAIL_WINDOW_S)
        self._in_total = AttemptLimit(limits.total, MAIL_WINDOW_S)
        self._cookie = cookie_name(settings.base_url)
        self._is_https = settings.base_url.startswith("https:")

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/sign-in", self.sign_in_page, methods=["GET"]),
            Route("/sign-in", self.request_link, methods=["POST"]),
            Route("/sign-in/link", self.open_link, methods=["GET"]),
            Route("/sign-in/link", self.use_link, methods=["POST"]),
            *(route for provider in self._providers for route in self._provider_routes(provider)),
            *([Route("/sign-in/demo", self.open_demo, methods=["POST"])] if self._is_demo else []),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route("/sign-out/everywhere", self.sign_out_everywhere, methods=["POST"]),
        ]

    def _provider_routes(self, provider: Provider) -> list[BaseRoute]:
        cookie = [Middleware(FlowCookie, settings=self._settings, pool=self._pool)]
        path = f"/sign-in/{provider.name}"
        return [
            Route(path, partial(self.redirect_to_provider, provider), middleware=cookie),
            Route(f"{path}/callback", partial(self.provider_callback, provider), middleware=cookie),
        ]

    # -- the page ---------------------------------------------------------------------------------

    async def sign_in_page(self, request: Request) -> Response:
        next_path = local_path(request.query_params.get("next", HOME))
        if await self._visitors.find(request) is not None:
            return rendering.redirect(next_path)
        return self._page(next_path)

    def _page(
        self,
        next_path: str = HOME,
        *,
        problem: str | None = None,
        email: str = "",
        status: int = 200,
    ) -> Response:
        return rendering.render(
            "sign_in.html",
            status=status,
            problem=problem,
            email=email,
            next_path=next_path,
            mailer=self._mailer,
            sign_up=self._settings.sign_up,
            providers=[
                (provider.title, sign_in_address(next_path, provider.name))
                for provider in self._providers
            ],
            is_local=self._settings.is_local,
            is_demo=self._is_demo,
        )

    # -- by mail ----------------------------------------------------------------------------------

    async def request_link(self, request: Request) -> Response:
        form = await read_form(request, self._settings.base_url)
        next_path = local_path(form.get("next", HOME))
        if not self._mailer.can_send:
            return self._page(next_path, problem=_MAIL_IS_OFF, status=400)
        try:
            email = parse_email(form.get("email", ""))
        except InvalidInputError:
            return self._page(
                next_path,
                problem="This is not a valid e-mail address: use the form name@example.org.",
                email=form.get("email", ""),
                status=400,
            )
        wait_s = self._count_client(find_client(request))
        if wait_s:
            message = f"Too many sign-in links were requested from your address. Try again in {format_wait(wait_s)}."
            headers = {"retry-after": str(wait_s)}
            return rendering.refuse(request, 429, "rate_limited", message, headers)
        response = rendering.render(
            "sign_in_sent.html",
            email=email,
            prints=self._mailer.prints,
            is_open=self._settings.sign_up.is_open,
        )
        if not self._by_mailbox.count(email, self._clock_s()):
            # Once the response is on its way, so that nobody can tell by the time it takes.
            response.background = BackgroundTask(self._send_link, email, next_path)
        return response

    def _count_client(self, address: str) -> int:
        """Count an attempt of a client address, and return the seconds to wait, 0 if it is allowed."""
        now_s = self._clock_s()
        return self._by_client.count(client_network(address), now_s) or self._by_network.count(
            client_network(address, NETWORK_PREFIX), now_s
        )

    def _sign_in(self, control: ControlDatabase) -> SignIn:
        return SignIn(control, rule=self._settings.sign_up)

    async def _send_link(self, email: str, next_path: str) -> None:
        try:
            token = await self._pool.run(
                lambda control: self._sign_in(control).make_email_link(email, next_path)
            )
            if self._in_total.count("", self._clock_s()):
                logger.error("A sign-in link was not sent: %s", _TOO_MANY_MAILS)
                return
            subject, text = sign_in_mail(self._settings.link_url(token))
            await self._mailer.send(email, subject, text)
        except SignUpRefusedError:
            return  # the page has said that a mail comes only if this address may sign in
        except (MailError, sqlite3.Error) as error:
            logger.error("A sign-in link was not sent: %s", error)  # noqa: TRY400 - the message is enough

    async def open_link(self, request: Request) -> Response:
        """Return a page with one button that uses the link. Programs that open every link in a mail press
        no buttons."""
        token = request.query_params.get("token", "")
        link = await self._pool.run(lambda control: SignIn(control).find_link(token))
        if link is None:
            return self._page(problem=_USED_LINK, status=410)
        return rendering.render("sign_in_link.html", headers=_HIDDEN, token=token, link=link)

    async def use_link(self, request: Request) -> Response:
        token = (await read_form(request, self._settings.base_url)).get("token", "")
        client = find_client(request)
        try:
            session = await self._pool.run(
                lambda control: self._sign_in(control).use_link(token, client)
            )
        except SignUpRefusedError as error:
            return self._page(problem=as_sentence(str(error)), status=403)
        if session is None:
            return self._page(problem=_USED_LINK, status=410)
        return await self._begin_session(request, session.token, session.next_path)

    # -- the demo -------------------------------------------------------------------------------

    async def open_demo(self, request: Request) -> Response:
        """Sign in as the local user of the demo. Requests of other sites and other machines are refused."""
        form = await read_form(request, self._settings.base_url)
        if not is_local_request(self._settings, find_client(request), request.headers):
            raise HTTPException(403, _ONLY_HERE)
        origin = Origin(method="demo", client=find_client(request))
        session = await self._pool.run(
            lambda control: self._sign_in(control).sign_in_locally(origin)
        )
        return await self._begin_session(request, session, form.get("next", HOME))

    # -- through a provider -----------------------------------------------------------------------

    async def redirect_to_provider(self, provider: Provider, request: Request) -> Response:
        next_path = local_path(request.query_params.get("next", HOME))
        return await self._with_provider_errors(next_path, provider.begin(request, next_path))

    async def provider_callback(self, provider: Provider, request: Request) -> Response:
        next_path = provider.take_next_path(request)
        return await self._with_provider_errors(
            next_path, self._finish(provider, request, next_path)
        )

    async def _finish(self, provider: Provider, request: Request, next_path: str) -> Response:
        email = await provider.finish(request)
        try:
            origin = Origin(method=provider.name, client=find_client(request))
            session = await self._pool.run(
                lambda control: self._sign_in(control).sign_in(email, origin)
            )
        except SignUpRefusedError as error:
            raise ProviderError(as_sentence(str(error)), 403) from None
        except InvalidInputError:
            raise ProviderError(
                f"The e-mail address of your {provider.title} account cannot be used here."
            ) from None
        return await self._begin_session(request, session, next_path)

    async def _with_provider_errors(
        self, next_path: str, response: Awaitable[Response]
    ) -> Response:
        try:
            return await response
        except ProviderError as error:
            return self._page(next_path, problem=str(error), status=error.status)

    # -- sessions ---------------------------------------------------------------------------------

    async def sign_out(self, request: Request) -> Response:
        await read_form(request, self._settings.base_url)
        await self._end_old_session(request)
        return self._forget_session()

    async def sign_out_everywhere(self, request: Request) -> Response:
        await read_form(request, self._settings.base_url)
        visitor = await self._visitors.require(request)
        await self._pool.run(lambda control: SignIn(control).sign_out_everywhere(visitor.user_id))
        return self._forget_session()

    async def _begin_session(self, request: Request, session: str, next_path: str) -> Response:
        await self._end_old_session(request)
        response = rendering.redirect(local_path(next_path))
        response.set_cookie(
            self._cookie,
            session,
            max_age=int(SESSION_LIFE.total_seconds()),
            path="/",
            secure=self._is_https,
            httponly=True,
            samesite="lax",
        )
        return response

    async def _end_old_session(self, request: Request) -> None:
        session = request.cookies.get(self._cookie)
        if session is not None:
            await self._pool.run(lambda control: SignIn(control).sign_out(session))

    def _forget_session(self) -> Response:
        response = rendering.redirect("/sign-in")
        response.delete_cookie(self._cookie, path="/", secure=self._is_https, httponly=True)
        return response


def _find_providers(settings: Settings) -> Sequence[Provider]:
    """Return the providers that the operator has configured.

    Authlib, which they need, takes a fifth of the start time of the web process, so it is only imported
    if one is configured."""
    if settings.github_client_id is None and settings.google_client_id is None:
        return []
    found: Sequence[Provider] = import_module("dashboard.sign_in.providers").configured(settings)
    return found
