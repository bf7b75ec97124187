"""The pages as a Starlette application: home, sign-in, sign-out.

Every unsafe method must come from a page of ours (``Origin`` or ``Sec-Fetch-Site``); the session
cookie is opaque, HttpOnly, and ``__Host-`` under https.
"""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dashboard import origin
from dashboard.visitors import session_cookie
from store.control import ControlDatabase
from store.heartbeat import Heartbeat
from store.settings import Settings
from store.sign_in import SESSION_LIFE, SignIn, Visitor

HERE = Path(__file__).parent
MAX_FORM_BYTES = 4096
_USED_LINK = "This link has been used or is too old."


class Pages:
    """``app.state.control`` of the application that mounts them is the open control database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_https = settings.base_url.startswith("https:")
        self._cookie = session_cookie(settings.base_url)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
        )

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self.home),
            Route("/sign-in", self.sign_in),
            Route("/sign-in/link", self.open_link, methods=["GET"]),
            Route("/sign-in/link", self.use_link, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    async def home(self, request: Request) -> Response:
        visitor = self._find_visitor(request)
        if visitor is None:
            return self._ask_to_sign_in(request)
        context = {
            "settings": self._settings,
            "endpoints": _control(request).list_endpoints(visitor.organization_id),
            "recorder": _describe(Heartbeat.read(self._settings.data_dir)),
        }
        return self._page("home.html", context, visitor=visitor)

    async def sign_in(self, _request: Request) -> Response:
        return self._page("sign_in.html", {"problem": None})

    async def open_link(self, request: Request) -> Response:
        """A page with one button: programs that open every link in a mail do not press buttons."""
        token = request.query_params.get("token", "")
        if not SignIn(_control(request)).is_link_good(token):
            return self._page("sign_in.html", {"problem": _USED_LINK}, status=410)
        return self._page("sign_in_link.html", {"token": token})

    async def use_link(self, request: Request) -> Response:
        if not origin.is_ours(request.headers, self._settings.base_url):
            return self._page("sign_in.html", {"problem": origin.REFUSAL}, status=403)
        async with request.form(max_fields=4, max_files=0, max_part_size=MAX_FORM_BYTES) as form:
            session = SignIn(_control(request)).use_link(str(form.get("token", "")))
        if session is None:
            return self._page("sign_in.html", {"problem": _USED_LINK}, status=410)
        response = RedirectResponse("/", status_code=303)
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

    async def sign_out(self, request: Request) -> Response:
        if not origin.is_ours(request.headers, self._settings.base_url):
            return self._page("sign_in.html", {"problem": origin.REFUSAL}, status=403)
        SignIn(_control(request)).sign_out(request.cookies.get(self._cookie, ""))
        response = RedirectResponse("/sign-in", status_code=303)
        response.delete_cookie(self._cookie, path="/", secure=self._is_https, httponly=True)
        return response

    def _find_visitor(self, request: Request) -> Visitor | None:
        session = request.cookies.get(self._cookie)
        return None if session is None else SignIn(_control(request)).find_visitor(session)

    def _ask_to_sign_in(self, request: Request) -> Response:
        """A browser is sent to the page; a program that wants JSON is told in JSON."""
        if "application/json" in request.headers.get("accept", ""):
            error = {"code": "not_signed_in", "message": "Sign in first."}
            return JSONResponse({"error": error}, 401, {"www-authenticate": "Bearer"})
        return RedirectResponse("/sign-in", status_code=303)

    def _page(
        self,
        name: str,
        context: Mapping[str, object],
        *,
        status: int = 200,
        visitor: Visitor | None = None,
    ) -> Response:
        text = self._templates.get_template(name).render(visitor=visitor, **context)
        return HTMLResponse(text, status, {"cache-control": "no-store"})


def _control(request: Request) -> ControlDatabase:
    control: ControlDatabase = request.app.state.control
    return control


def _describe(heartbeat: Heartbeat | None) -> str:
    if heartbeat is None or not heartbeat.is_fresh:
        return "not running; calls wait in the spool"
    if heartbeat.stuck_organizations:
        return f"running; {heartbeat.waiting} calls wait for a database that cannot be written"
    return f"running; {heartbeat.waiting} calls wait to be stored"
