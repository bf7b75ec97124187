"""``/sign-in`` and ``/sign-out``: how a session begins and ends.

The session cookie is opaque, HttpOnly, and ``__Host-`` under https.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import pages
from dashboard.forms import read_form
from dashboard.mail import Mailer
from dashboard.pool import ControlPool
from dashboard.visitors import Visitors, session_cookie
from store.settings import Settings
from store.sign_in import SESSION_LIFE, SignIn

_USED_LINK = "This link has been used or is too old."


class SignInPages:
    def __init__(
        self, settings: Settings, pool: ControlPool, visitors: Visitors, mailer: Mailer
    ) -> None:
        self._mailer = mailer
        self._settings = settings
        self._pool = pool
        self._visitors = visitors
        self._cookie = session_cookie(settings.base_url)
        self._is_https = settings.base_url.startswith("https:")

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/sign-in", self.show),
            Route("/sign-in/link", self.open_link, methods=["GET"]),
            Route("/sign-in/link", self.use_link, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
        ]

    async def show(self, _request: Request) -> Response:
        return pages.show("sign_in.html", problem=None)

    async def open_link(self, request: Request) -> Response:
        """A page with one button: programs that open every link in a mail do not press buttons."""
        token = request.query_params.get("token", "")
        link = await self._pool.run(lambda control: SignIn(control).find_link(token))
        if link is None:
            return pages.show("sign_in.html", problem=_USED_LINK, status=410)
        return pages.show("sign_in_link.html", token=token, link=link)

    async def use_link(self, request: Request) -> Response:
        token = (await read_form(request, self._settings.base_url)).get("token", "")
        session = await self._pool.run(lambda control: SignIn(control).use_link(token))
        if session is None:
            return pages.show("sign_in.html", problem=_USED_LINK, status=410)
        return self._begin_session(session.token, session.next_path)

    async def sign_out(self, request: Request) -> Response:
        await read_form(request, self._settings.base_url)
        session = request.cookies.get(self._cookie, "")
        await self._pool.run(lambda control: SignIn(control).sign_out(session))
        return self._end_session()

    def _begin_session(self, session: str, next_path: str) -> Response:
        response = pages.go(next_path)
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

    def _end_session(self) -> Response:
        response = pages.go("/sign-in")
        response.delete_cookie(self._cookie, path="/", secure=self._is_https, httponly=True)
        return response
